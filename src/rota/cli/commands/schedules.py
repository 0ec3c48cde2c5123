"""`rota schedules`: list, create, pause, run, delete and preview schedules."""

from __future__ import annotations

import argparse
from typing import Any, Final

from rota.cli.commands.arguments import api_client_of, encrypted, is_confirmed, json_of, printer_of
from rota.cli.commands.jobs import listed
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import column, counted, say

COLUMNS: Final = (
    column("id"),
    column("name"),
    column("cron"),
    column("zone"),
    ("type", lambda schedule: schedule["job"]["type"]),
    column("next", "next_run_at"),
    column("last", "last_run_at"),
    ("paused", lambda schedule: bool(schedule.get("paused_at"))),
)


def list_schedules(options: argparse.Namespace) -> int:
    schedules = listed(api_client_of(options), "/v1/schedules")
    printer_of(options).records(schedules, COLUMNS, empty="no schedules")
    return Exit.OK


def create(options: argparse.Namespace) -> int:
    """Create a schedule, or show when it would run."""
    if options.dry_run:
        options.expression, options.n = options.cron, 10
        return preview(options)
    job = {
        "type": options.type,
        "payload": json_of(options.payload, "payload"),
        "queue": options.queue,
        "max_attempts": options.max_attempts,
    }
    body = {
        "name": options.name,
        "cron": options.cron,
        "zone": options.tz,
        "job": _given(job),
        "overlap": options.overlap,
        "catch_up": options.catch_up,
    }
    api = api_client_of(options)
    made = api.post("/v1/schedules", _given({**body, "job": encrypted(api, body["job"])}))
    printer_of(options).record(made)
    return Exit.OK


def act(options: argparse.Namespace) -> int:
    """Pause, resume, skip, run or delete a schedule."""
    needs_confirmation = options.verb == "delete" or options.dry_run
    if needs_confirmation and not is_confirmed(options, f"{options.verb} schedule {options.name!r}"):
        return Exit.OK
    api = api_client_of(options)
    if options.verb == "delete":
        api.request("DELETE", f"/v1/schedules/{options.name}")
    else:
        api.post(f"/v1/schedules/{options.name}/{options.verb}")
    if not options.quiet:
        say(f"{options.verb} {options.name}: done")
    return Exit.OK


def update(options: argparse.Namespace) -> int:
    """Change a schedule; what is not given stays."""
    api = api_client_of(options)
    job = _given(
        {
            "type": options.type,
            "payload": None if options.payload is None else json_of(options.payload, "payload"),
            "queue": options.queue,
            "max_attempts": options.max_attempts,
        }
    )
    body = _given({"cron": options.cron, "zone": options.tz, "overlap": options.overlap, "catch_up": options.catch_up})
    if not body and not job:
        raise CommandFailed("schedules update: nothing to change", fix="give --cron, --payload, …", code=Exit.USAGE)
    if job:
        # The job is replaced as a whole: what is not given stays as it is.
        stored = api.get(f"/v1/schedules/{options.name}")["job"]
        body["job"] = encrypted(api, {**stored, **job})
    if options.dry_run:
        say(f"would change {', '.join((*(name for name in body if name != 'job'), *job))} of schedule {options.name}")
        return Exit.OK
    printer_of(options).record(api.request("PATCH", f"/v1/schedules/{options.name}", body))
    return Exit.OK


def backfill(options: argparse.Namespace) -> int:
    """Create the jobs of missed fire times in a past period, after showing their number."""
    api = api_client_of(options)
    body = {"from": options.start, "to": options.end}
    times = api.post(f"/v1/schedules/{options.name}/backfill", {**body, "dry_run": True})["times"]
    if not times:
        say("no fire time of this period lacks a job")
        return Exit.OK
    span = f"{times[0]} to {times[-1]}"
    if not is_confirmed(options, f"create {counted(len(times), 'job')} of {options.name} ({span})"):
        return Exit.OK
    made = api.post(f"/v1/schedules/{options.name}/backfill", body)["jobs"]
    say(f"created {counted(len(made), 'job')}")
    if options.output == "ids":
        print("\n".join(made))
    return Exit.OK


def upcoming(options: argparse.Namespace) -> int:
    schedule = api_client_of(options).get(f"/v1/schedules/{options.name}")
    options.expression, options.tz = schedule["cron"], schedule["zone"]
    return preview(options)


def preview(options: argparse.Namespace) -> int:
    """Show when an expression would run."""
    body = {"cron": options.expression, "zone": options.tz, "count": options.n}
    fire_times = api_client_of(options).post("/v1/schedules:preview", body)
    rows = [
        {"id": at, "utc": at.replace("T", " "), "local": local, "next": at}
        for at, local in zip(fire_times["times"], fire_times["local_times"], strict=True)
    ]
    printer_of(options).records(rows, (column("utc"), column("local"), column("next")))
    return Exit.OK


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}

"""Recurring work."""

from __future__ import annotations

import argparse
from typing import Any, Final

from rota.cli.commands.setup import is_meant, json_of, printer_of, server_of
from rota.cli.exits import Exit
from rota.cli.output import column, say

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
    """List schedules."""
    server = server_of(options)
    found: list[Any] = []
    cursor = None
    while True:
        page = server.get("/v1/schedules", limit=500, cursor=cursor)
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    printer_of(options).records(found, COLUMNS, empty="no schedules")
    return Exit.OK


def create(options: argparse.Namespace) -> int:
    """Put a schedule up, or show when it would run."""
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
    made = server_of(options).post("/v1/schedules", _given(body))
    printer_of(options).record(made)
    return Exit.OK


def act(options: argparse.Namespace) -> int:
    """Pause, resume, run or delete a schedule."""
    is_careful = options.verb == "delete" or options.dry_run
    if is_careful and not is_meant(options, f"{options.verb} schedule {options.name!r}"):
        return Exit.OK
    server = server_of(options)
    if options.verb == "delete":
        server.ask("DELETE", f"/v1/schedules/{options.name}")
    else:
        server.post(f"/v1/schedules/{options.name}/{options.verb}")
    if not options.quiet:
        say(f"{options.verb} {options.name}: done")
    return Exit.OK


def upcoming(options: argparse.Namespace) -> int:
    """Show a schedule's next runs."""
    schedule = server_of(options).get(f"/v1/schedules/{options.name}")
    options.expression, options.tz = schedule["cron"], schedule["zone"]
    return preview(options)


def preview(options: argparse.Namespace) -> int:
    """Show when an expression would run."""
    body = {"cron": options.expression, "zone": options.tz, "count": options.n}
    found = server_of(options).post("/v1/schedules:preview", body)
    rows = [
        {"id": at, "utc": at.replace("T", " "), "local": local, "next": at}
        for at, local in zip(found["times"], found["local_times"], strict=True)
    ]
    printer_of(options).records(rows, (column("utc"), column("local"), column("next")))
    return Exit.OK


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}

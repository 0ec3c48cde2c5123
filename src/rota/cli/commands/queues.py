"""`rota queues`: list, pause, resume, limit and purge queues."""

from __future__ import annotations

import argparse
import sys

from rota.cli.commands.arguments import api_client_of, printer_of
from rota.cli.commands.jobs import listed
from rota.cli.commands.operations import matched_text
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import column, say


def list_queues(options: argparse.Namespace) -> int:
    queues = listed(api_client_of(options), "/v1/queues")
    columns = (
        column("name"),
        column("depth"),
        ("running", lambda queue: queue["states"].get("running", 0)),
        column("max_depth"),
        column("paused_at"),
        column("reason", "pause_reason"),
    )
    printer_of(options).records(queues, columns, empty="no queues", identity="name")
    return Exit.OK


def pause(options: argparse.Namespace) -> int:
    api_client_of(options).post(f"/v1/queues/{options.name}/pause", {"reason": options.reason})
    say(f"paused {options.name}")
    return Exit.OK


def limit(options: argparse.Namespace) -> int:
    fields = ("max_depth", "max_running", "rate_limit")
    body = {field: getattr(options, field) for field in fields if getattr(options, field) is not None}
    api_client_of(options).request("PATCH", f"/v1/queues/{options.name}", body or {"max_depth": None})
    texts = {
        "max_depth": "at most {} jobs may wait",
        "max_running": "at most {} may run at once",
        "rate_limit": "{} may start",
    }
    changes = ", ".join(texts[field].format(value) for field, value in body.items())
    say(f"{options.name}: {changes or 'no bound of its own'}")
    return Exit.OK


def purge(options: argparse.Namespace) -> int:
    """Cancel all jobs of a queue that wait, by an operation, once its name was given a second time."""
    api = api_client_of(options)
    body = {"action": "cancel", "q": f'queue:"{options.name}" status:waiting'}
    count = api.post("/v1/operations", {**body, "dry_run": True})
    if options.dry_run or (not count["matched"] and count["is_exact"]):
        say(f"would cancel {matched_text(count)} waiting jobs of {options.name}")
        return Exit.OK
    name = options.confirm
    if name is None and sys.stdin.isatty():
        say(f"this cancels {matched_text(count)} waiting jobs; type the name of the queue to go on: ")
        name = sys.stdin.readline().strip()
    if name != options.name:
        raise CommandFailed(
            f"queues purge: {matched_text(count)} jobs of {options.name} were not cancelled, because the name was not"
            " given a second time",
            fix=f"rota queues purge {options.name} --confirm {options.name}",
            code=Exit.USAGE,
        )
    operation = api.post("/v1/operations", body)
    if options.quiet:
        print(operation["id"])
    else:
        say(f"operation {operation['id']} has begun; see: rota ops get {operation['id']}")
    return Exit.OK


def resume(options: argparse.Namespace) -> int:
    api_client_of(options).post(f"/v1/queues/{options.name}/resume")
    say(f"resumed {options.name}")
    return Exit.OK

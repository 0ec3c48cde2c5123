"""`rota queues`: list, pause, resume and limit queues."""

from __future__ import annotations

import argparse

from rota.cli.commands.arguments import api_client_of, printer_of
from rota.cli.commands.jobs import listed
from rota.cli.exits import Exit
from rota.cli.output import column, say


def list_queues(options: argparse.Namespace) -> int:
    found = listed(api_client_of(options), "/v1/queues")
    columns = (
        column("name"),
        column("depth"),
        ("running", lambda queue: queue["states"].get("running", 0)),
        column("max_depth"),
        column("paused_at"),
        column("reason", "pause_reason"),
    )
    printer_of(options).records(found, columns, empty="no queues", identity="name")
    return Exit.OK


def pause(options: argparse.Namespace) -> int:
    api_client_of(options).post(f"/v1/queues/{options.name}/pause", {"reason": options.reason})
    say(f"paused {options.name}")
    return Exit.OK


def limit(options: argparse.Namespace) -> int:
    bound = options.max_depth
    api_client_of(options).request("PATCH", f"/v1/queues/{options.name}", {"max_depth": bound})
    say(f"{options.name}: {'no bound of its own' if bound is None else f'at most {bound} jobs may wait'}")
    return Exit.OK


def resume(options: argparse.Namespace) -> int:
    api_client_of(options).post(f"/v1/queues/{options.name}/resume")
    say(f"resumed {options.name}")
    return Exit.OK

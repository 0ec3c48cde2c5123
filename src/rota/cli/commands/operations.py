"""`rota ops`, and actions on all jobs of a search: `rota jobs retry --match QUERY`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from rota.cli.commands.arguments import api_client_of, is_confirmed, printer_of
from rota.cli.commands.jobs import listed
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import column, say


def matched_text(operation: Mapping[str, Any]) -> str:
    return f"{operation['matched']}{'' if operation['is_exact'] else '+'}"


COLUMNS: Final = (
    column("id"),
    column("action"),
    column("state"),
    ("matched", matched_text),
    column("done"),
    column("refused"),
    column("by"),
    column("created_at"),
    ("selection", lambda one: one["q"] if one["q"] is not None else f"{one['id_count']} ids"),
)


def list_operations(options: argparse.Namespace) -> int:
    operations = listed(api_client_of(options), "/v1/operations", options.limit)
    printer_of(options).records(operations, COLUMNS, empty="no operations")
    return Exit.OK


def get(options: argparse.Namespace) -> int:
    printer_of(options).record(api_client_of(options).get(f"/v1/operations/{options.id}"))
    return Exit.OK


def cancel(options: argparse.Namespace) -> int:
    operation = api_client_of(options).post(f"/v1/operations/{options.id}/cancel")
    say(f"cancelled after {operation['done']} of {matched_text(operation)} jobs")
    return Exit.OK


def act_on_matches(options: argparse.Namespace, action: str, query: str) -> int:
    """Create an operation on all jobs of a search, after showing their number."""
    if options.ids or getattr(options, "all", False):
        raise CommandFailed("--match and jobs are given", fix="give one of the two", code=Exit.USAGE)
    api = api_client_of(options)
    arguments = {name: value for name in ("rate", "canary") if (value := getattr(options, name, None)) is not None}
    body = {"action": action, "q": query, "arguments": arguments}
    counted = api.post("/v1/operations", {**body, "dry_run": True})
    if not counted["matched"] and counted["is_exact"]:
        say("no job matches")
        return Exit.OK
    if not is_confirmed(options, f"{action.replace('_', '-')} {matched_text(counted)} jobs"):
        return Exit.OK
    operation = api.post("/v1/operations", body)
    printer = printer_of(options)
    if options.quiet:
        print(operation["id"])
    elif printer.form != "table":
        printer.record(operation)
    else:
        say(f"operation {operation['id']} has begun; see: rota ops get {operation['id']}")
    return Exit.OK

"""The cluster: who leads, who is alive, and what all processes are configured to do."""

from __future__ import annotations

import argparse

from rota.cli.commands.setup import printer_of, server_of
from rota.cli.exits import Exit
from rota.cli.output import column, say


def show(options: argparse.Namespace) -> int:
    """Show who leads and the shared configuration."""
    found = server_of(options).get("/v1/cluster")
    printer = printer_of(options)
    if printer.form != "table":
        printer.record(found)
        return Exit.OK
    printer.record(
        {
            "coordinator": f"{found['coordinator']}, {'answers' if found['coordinator_health'] else 'does not answer'}",
            "leader": found["current_leader"] or "nobody",
            "term": found["term"],
            **found["configuration"],
        }
    )
    return Exit.OK


def members(options: argparse.Namespace) -> int:
    """List the processes that are alive, as the coordinator knows them."""
    columns = (
        column("role"),
        column("name", "worker_id"),
        column("address"),
        column("host"),
        column("pid"),
        ("busy", lambda member: f"{member['busy']}/{member['slots']}" if member["slots"] else ""),
        column("version"),
    )
    found = server_of(options).get("/v1/cluster")["members"]
    printer_of(options).records(found, columns, empty="no process is alive", identity="worker_id")
    return Exit.OK


def configure(options: argparse.Namespace) -> int:
    """Set a key of the shared configuration."""
    server_of(options).ask("PUT", f"/v1/cluster/configuration/{options.key}", {"value": options.value})
    say(f"{options.key} is {options.value} for all running processes")
    return Exit.OK


def forget(options: argparse.Namespace) -> int:
    """Forget a key of the shared configuration."""
    server_of(options).ask("DELETE", f"/v1/cluster/configuration/{options.key}")
    say(f"{options.key}: every process goes by its own settings")
    return Exit.OK

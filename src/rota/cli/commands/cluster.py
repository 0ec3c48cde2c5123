"""`rota cluster`: leader, members, locks and the shared configuration."""

from __future__ import annotations

import argparse
from urllib.parse import quote

from rota.cli.commands.arguments import api_client_of, printer_of
from rota.cli.exits import Exit
from rota.cli.output import column, say


def show(options: argparse.Namespace) -> int:
    """Show the leader and the shared configuration."""
    cluster = api_client_of(options).get("/v1/cluster")
    printer = printer_of(options)
    if printer.form != "table":
        printer.record(cluster)
        return Exit.OK
    health = "answers" if cluster["coordinator_health"] else "does not answer"
    printer.record(
        {
            "coordinator": f"{cluster['coordinator']}, {health}",
            "leader": cluster["current_leader"] or "none",
            "term": cluster["term"],
            **cluster["configuration"],
        }
    )
    return Exit.OK


def members(options: argparse.Namespace) -> int:
    """List the live processes in the coordinator."""
    columns = (
        column("role"),
        column("name", "worker_id"),
        column("address"),
        column("host"),
        column("pid"),
        ("busy", lambda member: f"{member['busy']}/{member['slots']}" if member["slots"] else ""),
        column("version"),
    )
    live_members = api_client_of(options).get("/v1/cluster")["members"]
    printer_of(options).records(live_members, columns, empty="no process is alive", identity="worker_id")
    return Exit.OK


def leader(options: argparse.Namespace) -> int:
    """Show the current leader, and the leaders before it since the server was started."""
    found = api_client_of(options).get("/v1/system/leaders")
    columns = (column("leader", "name"), column("term"), column("since", "seen_at"))
    printer_of(options).records(found["items"], columns, empty="there has been no leader yet", identity="name")
    return Exit.OK


def transfer(options: argparse.Namespace) -> int:
    body = {} if options.to is None else {"to": options.to}
    new = api_client_of(options).post("/v1/cluster/leader:transfer", body)
    printer = printer_of(options)
    if printer.form == "table":
        say(f"{new['current_leader']} leads instead of {new['previous_leader']}, in term {new['term']}")
    else:
        printer.record(new, identity="current_leader")
    return Exit.OK


def configure(options: argparse.Namespace) -> int:
    api_client_of(options).request("PUT", f"/v1/cluster/configuration/{options.key}", {"value": options.value})
    say(f"{options.key} is {options.value} for all running processes")
    return Exit.OK


def forget(options: argparse.Namespace) -> int:
    api_client_of(options).request("DELETE", f"/v1/cluster/configuration/{options.key}")
    say(f"{options.key}: every process uses its own setting again")
    return Exit.OK


def locks(options: argparse.Namespace) -> int:
    """List the named locks that are held."""
    columns = (column("lock", "name"), column("holder"), column("since"), column("until"), column("fence"))
    held = api_client_of(options).get("/v1/locks")
    printer_of(options).records(held["items"], columns, empty="no lock is held", identity="name")
    if not held["is_complete"]:
        say(f"only the first {len(held['items'])} locks are listed")
    return Exit.OK


def unlock(options: argparse.Namespace) -> int:
    api_client_of(options).request("DELETE", f"/v1/locks/{quote(options.name, safe='')}")
    say(f"lock {options.name} is released; the renewal of its former holder will fail")
    return Exit.OK

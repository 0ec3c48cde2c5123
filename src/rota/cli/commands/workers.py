"""Who runs jobs."""

from __future__ import annotations

import argparse

from rota.cli.commands.jobs import listed
from rota.cli.commands.setup import printer_of, server_of
from rota.cli.exits import Exit
from rota.cli.output import column


def list_workers(options: argparse.Namespace) -> int:
    """List workers."""
    found = listed(server_of(options), "/v1/workers")
    columns = (
        column("worker", "worker_id"),
        column("host"),
        column("pid"),
        ("busy", lambda worker: f"{worker['busy']}/{worker['slots']}"),
        ("queues", lambda worker: ",".join(worker["queues"])),
        ("types", lambda worker: "any" if worker.get("types") is None else ",".join(worker["types"])),
        column("seen_at"),
        column("version"),
    )
    printer_of(options).records(found, columns, empty="no workers", identity="worker_id")
    return Exit.OK

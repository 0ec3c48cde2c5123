"""`rota workers`: list and show workers, and send them orders."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from rota.cli.commands.arguments import api_client_of, duration_of, is_confirmed, printer_of
from rota.cli.commands.jobs import listed
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import clean, column, say

LOOK_SECONDS: Final = 0.5
#: What a worker does after its next heartbeat.
_TOLD: Final = {
    "quiet": "claims no more jobs; those that run go on",
    "resume": "claims jobs again",
    "stop": "finishes its jobs and ends",
}


def list_workers(options: argparse.Namespace) -> int:
    workers = listed(api_client_of(options), "/v1/workers", all="true" if options.all else None)
    columns = (
        column("worker", "worker_id"),
        ("state", _state),
        column("host"),
        column("pid"),
        ("busy", lambda worker: f"{worker['busy']}/{worker['slots']}"),
        ("cpu", lambda worker: "" if worker.get("cpu") is None else f"{worker['cpu']:.0%}"),
        ("rss", lambda worker: "" if worker.get("rss") is None else f"{worker['rss'] / 1e6:.0f} MB"),
        ("queues", lambda worker: ",".join(worker["queues"])),
        ("types", lambda worker: "any" if worker.get("types") is None else ",".join(worker["types"])),
        column("seen_at"),
        column("version"),
    )
    printer_of(options).records(workers, columns, empty="no workers", identity="worker_id")
    return Exit.OK


def _state(worker: Mapping[str, Any]) -> str:
    if not worker["is_alive"]:
        return "gone"
    return "stopping" if worker["is_draining"] else "quiet" if worker["is_quiet"] else "alive"


def get(options: argparse.Namespace) -> int:
    worker = api_client_of(options).get(_path(options.name))
    printer_of(options).record({name: value for name, value in worker.items() if name != "stacks"})
    return Exit.OK


def order(options: argparse.Namespace) -> int:
    """Order a worker to be quiet, to resume or to stop."""
    if options.verb == "stop" and not is_confirmed(options, f"stop worker {options.name}"):
        return Exit.OK
    api_client_of(options).post(f"{_path(options.name)}/{options.verb}")
    say(f"{options.name}: within some seconds it {_TOLD[options.verb]}")
    return Exit.OK


def stacks(options: argparse.Namespace) -> int:
    """Request the stacks of a worker's threads, and wait for the answer."""
    api = api_client_of(options)
    before = api.get(_path(options.name))["stacks_at"]
    api.post(f"{_path(options.name)}/stacks")
    give_up_at = time.monotonic() + duration_of(options.wait, "--wait")
    while (worker := api.get(_path(options.name)))["stacks_at"] == before:
        if time.monotonic() >= give_up_at:
            raise CommandFailed(
                f"worker {options.name} has not answered within {options.wait}",
                fix=f"its answer comes with a heartbeat; see `rota workers get {options.name}`",
                code=Exit.TIMED_OUT,
            )
        time.sleep(LOOK_SECONDS)
    for line in worker["stacks"].split("\n"):
        print(clean(line))
    return Exit.OK


def forget(options: argparse.Namespace) -> int:
    api_client_of(options).request("DELETE", _path(options.name))
    say(f"{options.name} is forgotten")
    return Exit.OK


def _path(name: str) -> str:
    return f"/v1/workers/{quote(name, safe='')}"

"""`rota types`: task types with their failure rates and times, and what their payloads look like."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from rota.cli.commands.arguments import api_client_of, printer_of
from rota.cli.commands.jobs import listed
from rota.cli.exits import Exit
from rota.cli.output import column


def list_types(options: argparse.Namespace) -> int:
    types = listed(api_client_of(options), "/v1/types", since=options.since)
    columns = (
        column("type"),
        column("started"),
        column("failed"),
        ("failed %", _failure_rate),
        column("dead"),
        ("wait p95", _seconds("wait")),
        ("duration p95", _seconds("duration")),
        column("workers", "live_workers"),
        ("queues", lambda one: ",".join(one["queues"])),
    )
    printer_of(options).records(types, columns, empty=f"no task types since {options.since}", identity="type")
    return Exit.OK


def get(options: argparse.Namespace) -> int:
    path = f"/v1/types/{quote(options.name, safe='')}"
    printer_of(options).record(api_client_of(options).get(path, since=options.since))
    return Exit.OK


def _failure_rate(one: Mapping[str, Any]) -> str:
    return "" if one["failure_rate"] is None else f"{one['failure_rate']:.1%}"


def _seconds(measure: str) -> Callable[[Mapping[str, Any]], str]:
    def shown(one: Mapping[str, Any]) -> str:
        seconds = one[measure]["p95"]
        return "" if seconds is None else f"≤ {seconds:g} s"

    return shown

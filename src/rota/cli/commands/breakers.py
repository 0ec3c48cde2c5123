"""`rota breakers`: list, show, open, close and reset circuit breakers."""

from __future__ import annotations

import argparse

from rota.cli.commands.arguments import api_client_of, printer_of
from rota.cli.commands.jobs import listed
from rota.cli.exits import Exit
from rota.cli.output import column, say


def list_breakers(options: argparse.Namespace) -> int:
    breakers = listed(api_client_of(options), "/v1/breakers")
    names = ("name", "state", "is_forced", "open_until", "calls", "failed", "opened", "tasks", "reason")
    printer_of(options).records(breakers, tuple(map(column, names)), empty="no breakers", identity="name")
    return Exit.OK


def get(options: argparse.Namespace) -> int:
    printer_of(options).record(api_client_of(options).get(_path(options)))
    return Exit.OK


def open(options: argparse.Namespace) -> int:  # noqa: A001 - the command's name
    given = {"until": options.until, "open_for": options.open_for, "reason": options.reason}
    body = {name: value for name, value in given.items() if value is not None}
    reply = api_client_of(options).post(f"{_path(options)}/open", body)
    is_timed = options.until is not None or options.open_for is not None
    say(f"opened {options.name} until {reply['open_until'] if is_timed else 'it is closed'}")
    return Exit.OK


def close(options: argparse.Namespace) -> int:
    api_client_of(options).post(f"{_path(options)}/close", {"reason": options.reason})
    say(f"closed {options.name}, and keeps it closed until `rota breakers reset {options.name}`")
    return Exit.OK


def reset(options: argparse.Namespace) -> int:
    api_client_of(options).post(f"{_path(options)}/reset")
    say(f"closed {options.name}; it opens by itself again")
    return Exit.OK


def _path(options: argparse.Namespace) -> str:
    # A slash would end the path's segment: the API reads it in this form.
    name: str = options.name
    return "/v1/breakers/" + name.replace("/", "%2F")

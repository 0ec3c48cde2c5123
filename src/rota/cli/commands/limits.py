"""`rota limits`: list, show, set, delete, close and open limits."""

from __future__ import annotations

import argparse

from rota.cli.commands.arguments import api_client_of, printer_of
from rota.cli.commands.jobs import listed
from rota.cli.exits import Exit
from rota.cli.output import column, say
from rota.core.limit import ALLOWED_FIELDS


def list_limits(options: argparse.Namespace) -> int:
    limits = listed(api_client_of(options), "/v1/limits")
    columns = (
        column("name"),
        column("max_running"),
        column("rate_limit"),
        column("per_key_max_running"),
        column("per_key_rate_limit"),
        column("weight"),
        column("order"),
        column("on_full"),
        column("closed_until"),
        column("set_by"),
    )
    printer_of(options).records(limits, columns, empty="no limits", identity="name")
    return Exit.OK


def get(options: argparse.Namespace) -> int:
    printer_of(options).record(api_client_of(options).get(_path(options)))
    return Exit.OK


def set(options: argparse.Namespace) -> int:  # noqa: A001 - the command's name
    body = {field: getattr(options, field) for field in ALLOWED_FIELDS if getattr(options, field) is not None}
    api_client_of(options).request("PATCH", _path(options), body)
    say(f"{options.name}: " + ", ".join(f"{field} {value}" for field, value in body.items()))
    return Exit.OK


def delete(options: argparse.Namespace) -> int:
    api_client_of(options).request("DELETE", _path(options))
    say(f"deleted {options.name}")
    return Exit.OK


def close(options: argparse.Namespace) -> int:
    until = {} if options.until is None else {"until": options.until}
    reply = api_client_of(options).post(f"{_path(options)}/close", {"reason": options.reason, **until})
    end = "it is opened" if options.until is None else reply["closed_until"]
    say(f"closed {options.name} until {end}")
    return Exit.OK


def open(options: argparse.Namespace) -> int:  # noqa: A001 - the command's name
    api_client_of(options).post(f"{_path(options)}/open")
    say(f"opened {options.name}")
    return Exit.OK


def holders(options: argparse.Namespace) -> int:
    records = api_client_of(options).get(_path(options))["holders"]
    printer_of(options).records(
        [{"job": job} for job in records], (column("job"),), empty="no job runs under this limit", identity="job"
    )
    return Exit.OK


def _path(options: argparse.Namespace) -> str:
    # A slash would end the path's segment: the API reads it in this form.
    name: str = options.name
    return "/v1/limits/" + name.replace("/", "%2F")

"""`rota namespaces`: create, list, limit and delete namespaces."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rota.cli.api_client import ApiClient
from rota.cli.commands.arguments import api_client_of, printer_of
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import column, say

_LIMITS = ("jobs_waiting", "requests_per_second", "bytes_in_flight")


def create(options: argparse.Namespace) -> int:
    body: dict[str, Any] = {"name": options.name}
    if limits := _limits(options):
        body["limits"] = limits
    made = _api(options).post("/v1/namespaces", body)
    say(f"created namespace {made['name']}; `rota token create NAME --role admin --namespace {made['name']}` is next")
    return Exit.OK


def list_namespaces(options: argparse.Namespace) -> int:
    namespaces = _api(options).get("/v1/namespaces")["items"]
    columns = (
        column("name"),
        ("limits", lambda one: ",".join(f"{name}={most}" for name, most in one["limits"].items())),
        column("created_at"),
    )
    printer_of(options).records(namespaces, columns, empty="no namespaces but the default one")
    return Exit.OK


def set_limits(options: argparse.Namespace) -> int:
    limits = _api(options).request("PUT", f"/v1/namespaces/{options.name}/limits", _limits(options))["limits"]
    shown = ", ".join(f"{name} {most}" for name, most in limits.items()) or "no limits"
    say(f"namespace {options.name}: {shown}; every API process keeps them within 5 seconds")
    return Exit.OK


def delete(options: argparse.Namespace) -> int:
    if not _is_confirmed(options):
        say("not deleted: the name is another")
        return Exit.USAGE
    _api(options).request("DELETE", f"/v1/namespaces/{options.name}", query={"confirm": options.name})
    say(f"deleted namespace {options.name}; a scheduler drops its tables in some seconds")
    return Exit.OK


def _api(options: argparse.Namespace) -> ApiClient:
    """Make a client in the default namespace, which manages the others, also if ROTA_NAMESPACE is set."""
    if options.namespace:
        raise CommandFailed(
            "--namespace has no effect here: namespaces are managed in the default one",
            fix="leave it out",
            code=Exit.USAGE,
        )
    return api_client_of(options, namespace="")


def _limits(options: argparse.Namespace) -> dict[str, int]:
    return {name: getattr(options, name) for name in _LIMITS if getattr(options, name) is not None}


def _is_confirmed(options: argparse.Namespace) -> bool:
    """Have the user type the name again."""
    if options.confirm is not None:
        return bool(options.confirm == options.name)
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"delete the namespace {options.name}: not done, because it needs a confirmation and standard input is not"
            " a terminal",
            fix=f"add --confirm {options.name} if you mean it",
            code=Exit.USAGE,
        )
    say(f"This deletes all jobs, schedules and tokens of {options.name} for good. Type its name to go on: ")
    return bool(sys.stdin.readline().strip() == options.name)

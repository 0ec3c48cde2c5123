"""`rota users`: add, list and remove users of the dashboard, and change their passwords."""

from __future__ import annotations

import argparse
import getpass
import sys

from rota.cli.commands.arguments import access_of, api_client_of, is_confirmed, printer_of
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import column, say


def add(options: argparse.Namespace) -> int:
    body = access_of(options)
    if not options.no_password:
        body["password"] = _read_password()
    user = api_client_of(options).post("/v1/users", body)
    say(f"added {user['name']}")
    return Exit.OK


def list_users(options: argparse.Namespace) -> int:
    users = api_client_of(options).get("/v1/users")["items"]
    columns = (
        column("name"),
        column("role"),
        ("actions", lambda user: ",".join(user["actions"])),
        ("queues", lambda user: ",".join(user["queues"]) or "all"),
        column("has_password"),
        column("created_at"),
        column("expires_at"),
    )
    printer_of(options).records([{"id": user["name"], **user} for user in users], columns, empty="no users")
    return Exit.OK


def remove(options: argparse.Namespace) -> int:
    if not is_confirmed(options, f"remove the user {options.user}"):
        return Exit.OK
    user = api_client_of(options).request("DELETE", f"/v1/users/{options.user}")
    say(f"removed {user['name']}; the user's sessions end within 5 seconds")
    return Exit.OK


def passwd(options: argparse.Namespace) -> int:
    user = api_client_of(options).post(f"/v1/users/{options.user}/password", {"password": _read_password()})
    say(f"changed the password of {user['name']}; the user's sessions end within 5 seconds")
    return Exit.OK


def _read_password() -> str:
    """Ask for a password twice, or read a line from a pipe: on the command line others could see it."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass("password: ")
    if getpass.getpass("again: ") != password:
        raise CommandFailed("the two passwords differ", fix="run the command again", code=Exit.USAGE)
    return password

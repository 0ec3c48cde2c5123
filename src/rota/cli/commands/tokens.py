"""`rota token`: create, list, rotate and revoke API tokens."""

from __future__ import annotations

import argparse
from typing import Any

from rota.cli.commands.arguments import access_of, api_client_of, is_confirmed, printer_of, show_secret
from rota.cli.exits import Exit
from rota.cli.output import column, say

_LIMITS = ("requests_per_second", "streams_per_second", "bytes_in_flight")


def create(options: argparse.Namespace) -> int:
    body = access_of(options)
    limits = {name: getattr(options, name) for name in _LIMITS if getattr(options, name) is not None}
    if limits:
        body["limits"] = limits
    return _show_token(options, api_client_of(options).post("/v1/tokens", body))


def list_tokens(options: argparse.Namespace) -> int:
    tokens = api_client_of(options).get("/v1/tokens")["items"]
    columns = (
        column("id"),
        column("name"),
        column("role"),
        ("actions", lambda token: ",".join(token["actions"])),
        ("queues", lambda token: ",".join(token["queues"]) or "all"),
        ("limits", lambda token: ",".join(f"{name}={most}" for name, most in token["limits"].items())),
        column("created_at"),
        column("expires_at"),
        column("revoked_at"),
    )
    printer_of(options).records(tokens, columns, empty="no tokens")
    return Exit.OK


def revoke(options: argparse.Namespace) -> int:
    if not is_confirmed(options, f"revoke the token {options.token_name}"):
        return Exit.OK
    token = api_client_of(options).request("DELETE", f"/v1/tokens/{options.token_name}")
    say(f"revoked {token['name']}; every API process refuses it within 5 seconds")
    return Exit.OK


def rotate(options: argparse.Namespace) -> int:
    body = {"overlap": options.overlap} if options.overlap else {}
    return _show_token(options, api_client_of(options).post(f"/v1/tokens/{options.token_name}/rotate", body))


def _show_token(options: argparse.Namespace, token: dict[str, Any]) -> int:
    for warning in token["warnings"]:
        say(f"warning: {warning}")
    return show_secret(options, "token", token)

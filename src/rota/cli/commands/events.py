"""`rota events`: emit an event that jobs wait for, and show one."""

from __future__ import annotations

import argparse
import json
from urllib.parse import quote

from rota.cli.commands.arguments import api_client_of, json_of, printer_of
from rota.cli.exits import Exit
from rota.cli.output import say
from rota.core.waiting import Emission, check_event_name


def emit(options: argparse.Namespace) -> int:
    """Emit an event; the first emission of a name counts."""
    body = {"payload": json_of(options.payload, "payload")}
    if options.keep is not None:
        body["keep"] = options.keep
    api = api_client_of(options)
    if api.cipher is not None:
        from rota.encryption.jobs import encrypted_emission  # noqa: PLC0415 - an extra

        sealed = encrypted_emission(api.cipher, Emission(options.name, json.dumps(body["payload"])))
        body["payload"] = json.loads(sealed.payload)
    emitted = api.post(_path(options.name), body)
    printer = printer_of(options)
    if printer.form != "table":
        printer.record(emitted)
    elif not options.quiet:
        is_new = emitted["is_new"]
        fate = f"emitted; jobs woken: {emitted['woken']}" if is_new else f"emitted before, at {emitted['at']}"
        say(f"{options.name}: {fate}")
    return Exit.OK


def get(options: argparse.Namespace) -> int:
    """Show an event that was emitted and has not expired."""
    printer_of(options).record(api_client_of(options).get(_path(options.name)))
    return Exit.OK


def _path(name: str) -> str:
    check_event_name(name)
    # The client quotes the rest of the path itself.
    return f"/v1/events/{quote(name, safe='') if '/' in name or '%' in name else name}"

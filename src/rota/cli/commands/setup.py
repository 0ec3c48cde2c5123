"""What every command begins with: the settings, the server, the printer."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import Printer, say
from rota.cli.server import Server
from rota.core.errors import InvalidRequest
from rota.settings import OPTIONS, Settings, read


def settings_of(options: argparse.Namespace) -> Settings:
    """Read the settings, with what was typed winning."""
    typed = {name: getattr(options, name, None) for name in OPTIONS}
    try:
        return read(typed, os.environ, Path.cwd())
    except InvalidRequest as error:
        raise CommandFailed(str(error), fix="`rota config show --origin` shows them all", code=Exit.USAGE) from None


def server_of(options: argparse.Namespace) -> Server:
    """Find the server."""
    settings = settings_of(options)
    return Server(settings.api_url, settings.token)


def printer_of(options: argparse.Namespace) -> Printer:
    """Make the printer that was asked for."""
    return Printer(options.output, time=options.time)


def json_of(text: str, name: str) -> Any:  # noqa: ANN401 - JSON
    """Read JSON that was typed, or stands in a file, or comes by standard input."""
    import json  # noqa: PLC0415 - a command that needs none does not load it

    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        return json.loads(text)
    except OSError as error:
        raise CommandFailed(f"{name}: {error}", fix="name a file that can be read", code=Exit.USAGE) from None
    except ValueError as error:
        raise CommandFailed(
            f"{name}: {text[:60]!r} is not JSON: {error}",
            fix=f'quote it, as in --{name} \'{{"to": "user@example.com"}}\'',
            code=Exit.USAGE,
        ) from None


def is_meant(options: argparse.Namespace, what: str) -> bool:
    """Ask before something that cannot be undone, or is done to many."""
    if options.dry_run:
        say(f"would {what}")
        return False
    if options.yes or not sys.stdin.isatty():
        return True
    say(f"{what}? [y/N] ")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}

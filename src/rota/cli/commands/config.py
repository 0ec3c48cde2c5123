"""`rota config` and `rota version`."""

from __future__ import annotations

import argparse

from rota import __version__
from rota.cli.commands.arguments import printer_of, settings_of
from rota.cli.exits import Exit
from rota.cli.output import column
from rota.settings import shown


def show(options: argparse.Namespace) -> int:
    rows = [
        {"id": name, "name": name, "value": value, "origin": origin}
        for name, value, origin in shown(settings_of(options))
    ]
    columns = (column("name"), column("value"), *((column("origin"),) if options.origin else ()))
    printer_of(options).records(rows, columns)
    return Exit.OK


def version(options: argparse.Namespace) -> int:
    printer_of(options).record({"version": __version__})
    return Exit.OK

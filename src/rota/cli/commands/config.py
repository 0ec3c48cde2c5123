"""`rota config` and `rota version`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from rota import __version__
from rota.cli.commands.arguments import printer_of, settings_of
from rota.cli.exits import Exit
from rota.cli.output import column, say
from rota.cli.settings_warnings import warnings_about
from rota.settings import shown


def show(options: argparse.Namespace) -> int:
    settings = settings_of(options)
    rows = [{"id": name, "name": name, "value": value, "origin": origin} for name, value, origin in shown(settings)]
    columns = (column("name"), column("value"), *((column("origin"),) if options.origin else ()))
    printer_of(options).records(rows, columns)
    for sentence in warnings_about(settings, os.environ, Path.cwd()):
        say(sentence)
    return Exit.OK


def version(options: argparse.Namespace) -> int:
    printer_of(options).record({"version": __version__})
    return Exit.OK

"""Starting the roles: API, scheduler, worker, or all of them."""

from __future__ import annotations

import argparse

from rota.cli.commands.setup import settings_of
from rota.cli.exits import CommandFailed, Exit
from rota.core.errors import RotaError
from rota.roles.process import run_role


def run(options: argparse.Namespace) -> int:
    """Run a role until it is told to stop."""
    settings = settings_of(options)
    try:
        run_role(options.command, settings)
    except RotaError as error:
        raise CommandFailed(str(error), fix="see `rota config show --origin`") from error
    return Exit.OK

"""Starting the roles: API, scheduler, worker, or all of them."""

from __future__ import annotations

import argparse
import logging

from rota.cli.commands.setup import settings_of
from rota.cli.exits import CommandFailed, Exit, code_of
from rota.core.errors import RotaError, StoreUnavailable
from rota.core.redaction import redacted
from rota.roles.assembly import Program
from rota.roles.process import run_role, set_up_logs, works_over_http
from rota.sdk.handlers import load_app, program_of
from rota.settings import Settings

_log = logging.getLogger("rota")


def run(options: argparse.Namespace) -> int:
    """Run a role until it is told to stop."""
    settings = settings_of(options)
    set_up_logs(settings)
    try:
        _run(options.command, settings)
    except Exception as error:
        if settings.log_format.lower() != "json":
            raise
        # Whoever reads the log of a process as JSON reads its last line so, too.
        traceback = None if isinstance(error, RotaError | CommandFailed) else error
        _log.error("%s", redacted(str(error) or type(error).__name__), exc_info=traceback)
        return error.code if isinstance(error, CommandFailed) else code_of(error)
    return Exit.OK


def _run(role: str, settings: Settings) -> None:
    program = _program(role, settings)
    try:
        run_role(role, settings, program)
    except StoreUnavailable as error:
        raise CommandFailed(
            f"the store is away: {error}",
            fix="start the database, or correct its address (`rota config show --origin` says where that comes from);"
            " --start-timeout says how long to wait for it",
            code=Exit.UNREACHABLE,
        ) from error


def _program(role: str, settings: Settings) -> Program:
    """Load the app that the settings name. Its jobs go where this process's do, unless it says otherwise itself."""
    if not settings.app:
        return Program()
    app = load_app(settings.app)
    app.configure(settings, settings.api_url[0] if works_over_http(role, settings) else settings.store)
    return program_of(app)

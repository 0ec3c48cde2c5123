"""`rota standalone`, `api`, `scheduler` and `worker`: start a process."""

from __future__ import annotations

import argparse
import logging

from rota.cli.commands.arguments import settings_of
from rota.cli.exits import CommandFailed, Exit, code_of
from rota.core.errors import RotaError, StoreUnavailable
from rota.core.redaction import redacted
from rota.runtime.assembly import AppDefinition
from rota.runtime.process import run_role, set_up_logs, works_over_http
from rota.sdk.loader import definition_of, load_app
from rota.settings import Settings

_log = logging.getLogger("rota")


def run(options: argparse.Namespace) -> int:
    """Run a role until a signal stops it."""
    settings = settings_of(options)
    set_up_logs(settings)
    try:
        _run(options.command, settings)
    except Exception as error:
        if settings.log_format.lower() != "json":
            raise
        # With JSON logs, the last line is JSON too.
        traceback = None if isinstance(error, RotaError | CommandFailed) else error
        _log.error("%s", redacted(str(error) or type(error).__name__), exc_info=traceback)
        return error.code if isinstance(error, CommandFailed) else code_of(error)
    return Exit.OK


def _run(role: str, settings: Settings) -> None:
    app = _load_app(role, settings)
    try:
        run_role(role, settings, app)
    except StoreUnavailable as error:
        raise CommandFailed(
            f"the store is unavailable: {error}",
            fix="start the database, or correct its address (`rota config show --origin` shows where it comes from);"
            " --start-timeout sets how long to wait for it",
            code=Exit.UNREACHABLE,
        ) from error


def _load_app(role: str, settings: Settings) -> AppDefinition:
    """Load the app that the settings name. It submits to the store or API of this process, unless it names its own."""
    if not settings.app:
        return AppDefinition()
    app = load_app(settings.app)
    app.configure(settings, settings.api_url[0] if works_over_http(role, settings) else settings.store)
    return definition_of(app)

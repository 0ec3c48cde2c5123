"""`rota standalone`, `api`, `scheduler` and `worker`: start a process."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import Final

from rota.cli.commands.arguments import settings_of
from rota.cli.exits import CommandFailed, Exit, code_of
from rota.cli.settings_warnings import warnings_about
from rota.core.errors import RotaError, StoreUnavailable
from rota.core.redaction import redacted
from rota.runtime.assembly import AppDefinition
from rota.runtime.process import run_role, set_up_logs, works_over_http
from rota.sdk.loader import definition_of, load_app
from rota.settings import OPTIONS, Settings

_log = logging.getLogger("rota")
_OF_PORTS: Final = ("tls_cert", "tls_key", "tls_client_ca", "behind_proxy", "insecure")
_OF_API: Final = (*_OF_PORTS, "host", "proxy_user_header", "queue_size", "read_only", "ui", "token")
_OF_CLIENT: Final = ("api_url", "ca_file", "client_cert", "client_key")


def run(options: argparse.Namespace) -> int:
    """Run a role until a signal stops it."""
    settings = settings_of(options, OPTIONS)
    _refuse_unused_flags(options.command, settings)
    set_up_logs(settings)
    for sentence in warnings_about(settings, os.environ, Path.cwd()):
        _log.warning("%s", sentence)
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


def _refuse_unused_flags(role: str, settings: Settings) -> None:
    """Refuse flags that this process would not use. Variables and files may serve several processes: they are not."""
    for name, why, fix in _unused(role, settings):
        flag = "--no-ui" if name == "ui" else f"--{name.replace('_', '-')}"
        if settings.origin(name).startswith("--"):
            raise CommandFailed(f"{flag} has no effect here: {why}", fix=f"{fix}, or leave {flag} out", code=Exit.USAGE)


def _unused(role: str, settings: Settings) -> list[tuple[str, str, str]]:
    """List the settings that a process does not use, each with the reason and what would make it used."""
    if role == "scheduler" and settings.origin("port") == "default":
        return [(name, "a scheduler serves the API only with a port", "give --port as well") for name in _OF_API]
    if role != "worker":
        return []
    unused = []
    if not settings.worker_address:
        why = "a worker listens only with an address of its own"
        own = _OF_PORTS if works_over_http(role, settings) else (*_OF_PORTS, "token")
        unused += [(name, why, "give --worker-address as well") for name in own]
    if works_over_http(role, settings):
        why = "this worker uses the API, not a store"
        unused += [(name, why, "give it to the API, or give --store") for name in ("broker", "queue_size")]
        return [*unused, ("start_timeout", f"{why}, and waits for it as long as it takes", "give --store")]
    why = "this worker uses the store, not the API"
    return [*unused, *((name, why, "leave --store out") for name in _OF_CLIENT)]


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

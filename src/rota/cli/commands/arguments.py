"""Parsed arguments into settings, API client, printer, JSON and durations; and confirmation of risky commands."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rota.cli.api_client import ApiClient
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import Printer, say
from rota.core.errors import InvalidRequest
from rota.settings import Settings, read

if TYPE_CHECKING:
    from rota.encryption import Cipher


#: The settings that have a flag on commands; `--max-attempts`, say, has another meaning there.
_OF_COMMANDS: Final = ("api_url", "token", "namespace", "ca_file", "client_cert", "client_key", "store")


def settings_of(options: argparse.Namespace, flags: Iterable[str] = _OF_COMMANDS) -> Settings:
    """Read the settings; flags override the environment and files."""
    typed = {name: getattr(options, name, None) for name in flags}
    try:
        return read(typed, os.environ, Path.cwd())
    except InvalidRequest as error:
        raise CommandFailed(str(error), fix="correct it, or remove it", code=Exit.USAGE) from None


def store_of(options: argparse.Namespace) -> str:
    """Return the URL of the store, which is that of the namespace if one is named; one that is not there is refused."""
    from rota.runtime.namespace_stores import require_store, store_url  # noqa: PLC0415 - commands over HTTP need none

    settings = settings_of(options)
    url = store_url(settings.store, settings.namespace)
    if settings.namespace:
        asyncio.run(require_store(url, settings.namespace))
    return url


def api_client_of(options: argparse.Namespace, namespace: str | None = None) -> ApiClient:
    """Make the client of the API, in a given namespace or in that of the settings."""
    settings = settings_of(options)
    chosen = settings.namespace if namespace is None else namespace
    return ApiClient(settings.api_url, settings.token, _cipher_of(settings), settings.client_tls, namespace=chosen)


def _cipher_of(settings: Settings) -> Cipher | None:
    """Open the encryption keys, if there are any."""
    if not settings.encryption_keys:
        return None
    from rota.runtime.encryption import open_cipher  # noqa: PLC0415 - most commands need no keys

    try:
        return open_cipher(settings.encryption_keys)
    except InvalidRequest as error:
        raise CommandFailed(str(error), fix="see docs/howto/encrypt.md", code=Exit.USAGE) from None


def encrypted(api: ApiClient, form: dict[str, Any], *, has_id: bool = False) -> dict[str, Any]:
    """Encrypt the payload of a submission if there are keys; with `has_id`, bind it to a new job id."""
    if api.cipher is None or not isinstance(form, dict):
        return form
    import random  # noqa: PLC0415 - as above

    from rota.core.ids import to_text  # noqa: PLC0415
    from rota.encryption.jobs import encrypted_form  # noqa: PLC0415
    from rota.engine.ids import IdMaker  # noqa: PLC0415
    from rota.ports.clock import wall_clock  # noqa: PLC0415

    job_id = to_text(IdMaker(wall_clock, random.random)()) if has_id else None
    return encrypted_form(api.cipher, form, job_id)


def printer_of(options: argparse.Namespace) -> Printer:
    return Printer(options.output, time=options.time)


def strict_json(text: str) -> Any:  # noqa: ANN401 - JSON
    """Read JSON; raise ValueError for NaN and Infinity, which Python's parser accepts though JSON has neither."""
    import json  # noqa: PLC0415 - a command that needs none does not load it

    from rota.core.finite import require_finite  # noqa: PLC0415 - as above

    value = json.loads(text)
    require_finite(value, "value")
    return value


def json_of(text: str, name: str) -> Any:  # noqa: ANN401 - JSON
    """Read JSON from an argument, a file (`@name`) or standard input (`-`)."""
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        return strict_json(text)
    except OSError as error:
        raise CommandFailed(f"{name}: {error}", fix="name a file that can be read", code=Exit.USAGE) from None
    except ValueError as error:
        raise CommandFailed(
            f"{name}: {text[:60]!r} is not JSON: {error}",
            fix=f'quote it, as in --{name} \'{{"to": "user@example.com"}}\'',
            code=Exit.USAGE,
        ) from None


def duration_of(text: str, flag: str) -> float:
    """Read a duration into seconds."""
    from rota.core.duration import parse_duration  # noqa: PLC0415 - a command that needs none does not load it

    try:
        return parse_duration(text, field=flag).total_seconds()
    except InvalidRequest as error:
        raise CommandFailed(str(error), fix="write it as 30s, 5m or 1h30m", code=Exit.USAGE) from None


def is_confirmed(options: argparse.Namespace, action: str) -> bool:
    """Ask for confirmation of an action that cannot be undone or concerns many jobs."""
    if options.dry_run:
        say(f"would {action}")
        return False
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"{action}: not done, because it needs a confirmation and standard input is not a terminal",
            fix="add --yes if you mean it, or --dry-run to see what would be done",
            code=Exit.USAGE,
        )
    say(f"{action}? [y/N] ")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def words_of(text: str) -> list[str]:
    """Split a list that is separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def access_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the request fields of a new token or user, from the flags of its access."""
    body: dict[str, Any] = {"name": options.name}
    if options.role:
        body["role"] = options.role
    for field in ("actions", "queues"):
        if (text := getattr(options, field)) is not None:
            body[field] = words_of(text)
    if options.expires is not None:
        body["expires"] = options.expires
    return body


def show_secret(options: argparse.Namespace, noun: str, record: dict[str, Any]) -> int:
    """Print a new secret alone to standard output, unless another format is requested."""
    printer = printer_of(options)
    if printer.form == "table":
        say(f"{noun} {record['name']} ({record['id']}); its secret is shown this once:")
        print(record["secret"])
    else:
        printer.record(record)
    return Exit.OK

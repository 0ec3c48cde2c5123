"""`rota doctor`: checks the deployment by its API, and this host by its settings, clock, store and files."""

from __future__ import annotations

import argparse
import stat
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rota.cli.commands.arguments import api_client_of, printer_of, settings_of
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import clean, column, say
from rota.core.errors import RotaError
from rota.core.redaction import redacted
from rota.runtime.namespace_stores import store_url
from rota.runtime.store import migrations_of, path_of
from rota.settings import Settings

#: A larger difference between the clocks of this host and of the server is a finding.
CLOCK_SECONDS: Final = 2.0
_OTHERS: Final = stat.S_IROTH | stat.S_IWOTH

Finding = dict[str, Any]


def run(options: argparse.Namespace) -> int:
    """Print all findings; exit with 9 if there is one that is more than information."""
    settings = settings_of(options)
    findings = [*_deployment(options), *_schema(settings), *_files(settings)]
    printer = printer_of(options)
    if printer.form != "table":
        printer.records(findings, (column("code"), column("severity"), column("text"), column("fix")), identity="code")
    for finding in findings if printer.form == "table" else ():
        print(f"{finding['severity']}  {finding['code']}: {clean(finding['text'])}\n  fix: {clean(finding['fix'])}")
    if not findings:
        say("no problems found")
    return Exit.PROBLEMS_FOUND if any(one["severity"] != "info" for one in findings) else Exit.OK


def _finding(code: str, text: str, fix: str, severity: str = "warning") -> Finding:
    return {"code": code, "severity": severity, "text": text, "fix": fix}


def _deployment(options: argparse.Namespace) -> Iterator[Mapping[str, Any]]:
    """Read from the API what needs attention, and compare its clock with ours."""
    begun = datetime.now(UTC)
    try:
        answer = api_client_of(options).get("/v1/attention")
    except CommandFailed as error:
        if error.code is not Exit.UNREACHABLE:
            raise
        yield _finding("api_unreachable", str(error), error.fix or "start one: rota api", "critical")
        return
    yield from answer["items"]
    ended = datetime.now(UTC)
    checked = datetime.fromisoformat(answer["checked_at"])
    # The server read its clock between our two readings: only what lies outside of them is a difference.
    offset = max((begun - checked).total_seconds(), (checked - ended).total_seconds())
    if offset > CLOCK_SECONDS:
        text = f"the clocks of this host and of the server differ by {offset:.1f} s"
        yield _finding("clock_skew", text, "synchronise the clocks of all hosts (NTP)")


def _schema(settings: Settings) -> Iterator[Finding]:
    """Compare the migrations of the store with those of this release, if the settings name a store."""
    if settings.origin("store") == "default":
        return
    try:
        migrations = migrations_of(store_url(settings.store, settings.namespace))
    except RotaError as error:
        fix = "check that the store runs and that the settings name it: rota config show --origin"
        yield _finding("store_unavailable", f"{redacted(settings.store)}: {error}", fix, "critical")
        return
    for migration in migrations:
        if not migration.is_known:
            text = f"migration {migration.name} is of a newer or another release of Rota"
            yield _finding("schema_too_new", text, "install that release on this host", "critical")
        elif not migration.is_applied:
            yield _finding("migration_pending", f"migration {migration.name} is missing", "rota db migrate")


def _files(settings: Settings) -> Iterator[Finding]:
    """Name database files of SQLite that every user of this host can read or write."""
    if "://" in settings.store and not settings.store.startswith("sqlite"):
        return
    path = path_of(store_url(settings.store, settings.namespace))
    if path.is_file() and path.stat().st_mode & _OTHERS:
        text = f"every user of this host can read or write {path}, which holds the payloads of all jobs"
        yield _finding("file_permissions", text, f"chmod o-rw {path}")

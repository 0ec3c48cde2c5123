"""The store: its form and whether it is sound."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from rota.cli.commands.setup import printer_of, settings_of
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import clean, column, say
from rota.core.errors import StoreUnavailable
from rota.core.redaction import redacted
from rota.engine.ledger import verify_ledger
from rota.runtime.store import migrations_of, open_store
from rota.stores.migrations import MigrationState


def migrate(options: argparse.Namespace) -> int:
    """Bring the store to the form this release needs."""
    location = settings_of(options).store

    async def open_and_close() -> None:
        store = await open_store(location)
        await store.close()

    asyncio.run(open_and_close())
    say(f"{redacted(location)} is up to date")
    return Exit.OK


def status(options: argparse.Namespace) -> int:
    """Show which migrations the store has seen, also those that only another release knows."""
    migrations = migrations_of(settings_of(options).store)
    rows = [
        {"id": name, "migration": name, "applied": is_applied, "known": is_known}
        for name, is_applied, is_known in migrations
    ]
    printer_of(options).records(rows, (column("migration"), column("applied"), column("known")))
    newer = _newer(migrations)
    for finding in newer:
        say(finding)
    return Exit.PROBLEMS_FOUND if newer else Exit.OK


def check(options: argparse.Namespace) -> int:
    """Look for damage and for settings that endanger what is stored."""
    location = settings_of(options).store
    findings = _pending(location) or asyncio.run(_look(location))
    for finding in findings:
        print(clean(finding))
    say(f"{redacted(location)}: {f'{len(findings)} findings' if findings else 'sound'}")
    return Exit.PROBLEMS_FOUND if findings else Exit.OK


def _pending(location: str) -> Sequence[str]:
    """Name the migrations that a store lacks, or has too many. A check makes no store and migrates none."""
    migrations = require_store(location)
    missing = [migration.name for migration in migrations if not migration.is_applied]
    return _newer(migrations) or [f"migration {name} is missing; run `rota db migrate`" for name in missing]


def require_store(location: str) -> Sequence[MigrationState]:
    """Give the migrations of a store and whether it has them; refuse a place where there is none."""
    migrations = migrations_of(location)
    if not any(migration.is_applied for migration in migrations):
        raise CommandFailed(
            f"{redacted(location)} holds no store of Rota's",
            fix="is the name right? `rota db migrate` makes a new store",
            code=Exit.NOT_FOUND,
        )
    return migrations


def _newer(migrations: Sequence[MigrationState]) -> Sequence[str]:
    """Name the migrations of a newer or another release."""
    return [
        f"migration {migration.name} is of a newer or another release of Rota; this one refuses to start here, install"
        " that one"
        for migration in migrations
        if not migration.is_known
    ]


async def _look(location: str) -> Sequence[str]:
    store = await open_store(location)
    try:
        findings = list(await store.check())
        try:
            broken = (await verify_ledger(store)).finding
        except StoreUnavailable as error:
            # Damage, which the check has named already unless this says something new.
            broken = f"ledger: it cannot be read: {error}"
        return [*findings, broken] if broken is not None else findings
    finally:
        await store.close()

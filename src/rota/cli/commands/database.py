"""`rota db` and `rota ledger`: migrations of the store, checks for damage, and the chain of the audit log."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from rota.cli.commands.arguments import printer_of, settings_of, store_of
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import clean, column, say
from rota.core.errors import StoreUnavailable
from rota.core.redaction import redacted
from rota.engine.ledger import LedgerCheck, verify_ledger
from rota.runtime.namespace_stores import store_url
from rota.runtime.store import grants_of, migrations_of, open_store
from rota.stores.grants import Roles
from rota.stores.migrations import MigrationState


def migrate(options: argparse.Namespace) -> int:
    """Migrate the store to the schema of this release, and those of all namespaces."""
    location = store_of(options)
    for url in [location, *asyncio.run(_migrated(location))]:
        say(f"{redacted(url)} is up to date")
    return Exit.OK


async def _migrated(location: str) -> Sequence[str]:
    """Migrate a store and the namespaces that it lists, and give the URLs of these."""
    store = await open_store(location)
    try:
        names = [one.name for one in await store.namespaces() if one.is_live]
    finally:
        await store.close()
    urls = [store_url(location, name) for name in names]
    for url in urls:
        await (await open_store(url)).close()
    return urls


def status(options: argparse.Namespace) -> int:
    """Show the migrations, also applied ones that this release does not know."""
    migrations = migrations_of(store_of(options))
    rows = [
        {"id": name, "migration": name, "applied": is_applied, "known": is_known}
        for name, is_applied, is_known in migrations
    ]
    printer_of(options).records(rows, (column("migration"), column("applied"), column("known")))
    newer = _newer(migrations)
    for finding in newer:
        say(finding)
    return Exit.PROBLEMS_FOUND if newer else Exit.OK


def grants(options: argparse.Namespace) -> int:
    """Print SQL for database roles with the least privileges."""
    roles = Roles(migrate=options.migrate_role, run=options.run_role, read=options.read_role)
    settings = settings_of(options)
    scripts = grants_of(store_url(settings.store, settings.namespace), roles)
    print("\n\n".join(getattr(scripts, part) for part in ("roles", "tables") if options.only in {None, part}))
    return Exit.OK


def check(options: argparse.Namespace) -> int:
    """Look for damage, and for database settings that endanger the data."""
    location = store_of(options)
    findings = _pending(location) or asyncio.run(_findings(location))
    for finding in findings:
        print(clean(finding))
    say(f"{redacted(location)}: {f'{len(findings)} findings' if findings else 'sound'}")
    return Exit.PROBLEMS_FOUND if findings else Exit.OK


def _pending(location: str) -> Sequence[str]:
    """Name the migrations that are missing or unknown. A check creates no store and migrates none."""
    migrations = require_store(location)
    missing = [migration.name for migration in migrations if not migration.is_applied]
    return _newer(migrations) or [f"migration {name} is missing; run `rota db migrate`" for name in missing]


def require_store(location: str) -> Sequence[MigrationState]:
    """Return the migrations of a store; refuse a database without one."""
    migrations = migrations_of(location)
    if not any(migration.is_applied for migration in migrations):
        raise CommandFailed(
            f"{redacted(location)} holds no store of Rota",
            fix="correct the name, or create a store with `rota db migrate`",
            code=Exit.NOT_FOUND,
        )
    return migrations


def _newer(migrations: Sequence[MigrationState]) -> Sequence[str]:
    """Name the migrations of a newer or another release."""
    return [
        f"migration {migration.name} is of a newer or another release of Rota; this release refuses to start here,"
        " install that one"
        for migration in migrations
        if not migration.is_known
    ]


async def _findings(location: str) -> Sequence[str]:
    store = await open_store(location)
    try:
        findings = list(await store.check())
        try:
            broken = (await verify_ledger(store)).finding
        except StoreUnavailable as error:
            # Damage, which the check has mostly found already.
            broken = f"ledger: cannot be read: {error}"
        return [*findings, broken] if broken is not None else findings
    finally:
        await store.close()


def verify(options: argparse.Namespace) -> int:
    """Verify the hash chain of the audit log, and name the first wrong entry."""
    location = store_of(options)
    require_store(location)
    check = asyncio.run(_verified(location))
    if check.finding is not None:
        print(clean(check.finding))
        return Exit.PROBLEMS_FOUND
    digest = f", the last digest is {check.last.digest}" if check.last is not None else ""
    say(f"{redacted(location)}: the ledger is whole: {check.count} entries{digest}")
    return Exit.OK


async def _verified(location: str) -> LedgerCheck:
    store = await open_store(location)
    try:
        return await verify_ledger(store)
    finally:
        await store.close()

"""The store: its form and whether it is sound."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from rota.cli.commands.setup import printer_of, settings_of
from rota.cli.exits import Exit
from rota.cli.output import clean, column, say
from rota.runtime.store import migrations_of, open_store
from rota.settings import without_password


def migrate(options: argparse.Namespace) -> int:
    """Bring the store to the form this release needs."""
    location = settings_of(options).store

    async def open_and_close() -> None:
        store = await open_store(location)
        await store.close()

    asyncio.run(open_and_close())
    say(f"{without_password(location)} is up to date")
    return Exit.OK


def status(options: argparse.Namespace) -> int:
    """Show which migrations the store has seen."""
    rows = [
        {"id": name, "migration": name, "applied": is_applied}
        for name, is_applied in migrations_of(settings_of(options).store)
    ]
    printer_of(options).records(rows, (column("migration"), column("applied")))
    return Exit.OK


def check(options: argparse.Namespace) -> int:
    """Look for damage and for settings that endanger what is stored."""
    location = settings_of(options).store

    async def look() -> Sequence[str]:
        store = await open_store(location)
        try:
            return await store.check()
        finally:
            await store.close()

    findings = asyncio.run(look())
    for finding in findings:
        print(clean(finding))
    say(f"{without_password(location)}: {f'{len(findings)} findings' if findings else 'sound'}")
    return Exit.ERROR if findings else Exit.OK

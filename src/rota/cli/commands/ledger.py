"""The ledger: whether its chain is whole."""

from __future__ import annotations

import argparse
import asyncio

from rota.cli.commands.database import require_store
from rota.cli.commands.setup import settings_of
from rota.cli.exits import Exit
from rota.cli.output import clean, say
from rota.core.redaction import redacted
from rota.engine.ledger import LedgerCheck, verify_ledger
from rota.runtime.store import open_store


def verify(options: argparse.Namespace) -> int:
    """Walk the ledger's chain and name the first entry that does not fit."""
    location = settings_of(options).store
    require_store(location)
    found = asyncio.run(_verified(location))
    if found.finding is not None:
        print(clean(found.finding))
        return Exit.PROBLEMS_FOUND
    digest = f", the last digest is {found.last.digest}" if found.last is not None else ""
    say(f"{redacted(location)}: the ledger is whole: {found.count} entries{digest}")
    return Exit.OK


async def _verified(location: str) -> LedgerCheck:
    store = await open_store(location)
    try:
        return await verify_ledger(store)
    finally:
        await store.close()

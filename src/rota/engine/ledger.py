"""Verification of the ledger's hash chain.

Each entry has a digest over itself and the previous digest, and a number one higher. A changed entry does not match
its digest; an inserted or deleted entry does not match its neighbours. Retention deletes the oldest entries, so the
first entry that is left is trusted. Deletion of the newest entries cannot be detected here: compare the last digest
with one that was noted elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.core.ledger import GENESIS, LedgerEntry
from rota.ports.store import LedgerStore

_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """Result of a verification: the number of entries, the last one, and the oldest one that does not match."""

    count: int = 0
    last: LedgerEntry | None = None
    broken: LedgerEntry | None = None
    why: str = ""

    @property
    def finding(self) -> str | None:
        """The finding in one sentence; None if the chain is whole."""
        if self.broken is None:
            return None
        when = "" if self.broken.at is None else f" of {self.broken.at:%Y-%m-%d %H:%M:%S} UTC"
        named = f"({self.broken.actor}: {self.broken.action} {self.broken.target})"
        return f"ledger: entry {self.broken.number}{when} {named} {self.why}; do not trust the ledger from there on"


async def verify_ledger(store: LedgerStore) -> LedgerCheck:
    """Walk the whole chain, newest first, a page at a time."""
    count, newer, found = 0, None, LedgerCheck()
    last: LedgerEntry | None = None
    while page := await store.ledger(before=None if newer is None else newer.number, limit=_PAGE):
        last = last or page[0]
        count += len(page)
        for entry in page:
            if newer is not None and (why := _misfit(newer, entry.number, entry.digest)):
                found = LedgerCheck(broken=newer, why=why)
            newer = entry
    if newer is not None and newer.number <= 1 and (why := _misfit(newer, 0, GENESIS)):
        found = LedgerCheck(broken=newer, why=why)
    return LedgerCheck(count, last, found.broken, found.why)


def _misfit(entry: LedgerEntry, number_before: int, digest_before: str) -> str:
    """Return what is wrong with an entry after a given one; empty if it matches."""
    if entry.number != number_before + 1:
        return f"does not follow entry {number_before}: entries in between are missing"
    if entry.at is None or entry.chained(entry.number, entry.at, digest_before).digest != entry.digest:
        return "does not fit its digest: it, or the digest before it, was changed"
    return ""

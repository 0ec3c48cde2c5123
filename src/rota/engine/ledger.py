"""The ledger: search of its entries, and verification of its hash chain.

Each entry has a digest over itself and the previous digest, and a number one higher. A changed entry does not match
its digest; an inserted or deleted entry does not match its neighbours. Retention deletes the oldest entries, so the
first entry that is left is trusted. Deletion of the newest entries cannot be detected here: compare the last digest
with one that was noted elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rota.core.ledger import GENESIS, LedgerEntry
from rota.ports.system_store import LedgerStore

_PAGE: Final = 1000
#: How many entries a search reads at most before it says where to go on.
MOST_SEARCHED: Final = 10_000


@dataclass(frozen=True, slots=True)
class LedgerFilter:
    """Which entries are meant; None and empty texts mean all. `action` may end in a star: ``queues.*``."""

    actor: str = ""
    action: str = ""
    target: str = ""
    surface: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def matches(self, entry: LedgerEntry) -> bool:
        """Whether an entry is meant."""
        is_named = (not self.actor or entry.actor == self.actor) and (not self.surface or entry.surface == self.surface)
        is_before = self.until is None or (entry.at is not None and entry.at < self.until)
        is_target = not self.target or entry.target == self.target
        return is_named and is_before and is_target and self._is_action(entry) and not self.is_past(entry)

    def _is_action(self, entry: LedgerEntry) -> bool:
        if self.action.endswith("*"):
            return entry.action.startswith(self.action[:-1])
        return not self.action or entry.action == self.action

    def is_past(self, entry: LedgerEntry) -> bool:
        """Whether an entry, and so all before it, is older than what is meant."""
        return self.since is not None and entry.at is not None and entry.at < self.since


async def search_ledger(
    store: LedgerStore, filters: LedgerFilter, *, before: int | None, limit: int
) -> tuple[list[LedgerEntry], int | None]:
    """Return entries, newest first, and the number before which the search goes on; None at the end."""
    entries: list[LedgerEntry] = []
    read = 0
    while page := await store.ledger(before=before, limit=min(_PAGE, limit) if filters == LedgerFilter() else _PAGE):
        for entry in page:
            if filters.is_past(entry):
                return entries, None
            before = entry.number
            if filters.matches(entry):
                entries.append(entry)
                if len(entries) == limit:
                    return entries, before if before > 1 else None
        read += len(page)
        if read >= MOST_SEARCHED:
            return entries, before
    return entries, None


async def all_entries(store: LedgerStore, filters: LedgerFilter) -> AsyncIterator[list[LedgerEntry]]:
    """Return all entries, newest first, some at a time."""
    before: int | None = None
    while True:
        entries, before = await search_ledger(store, filters, before=before, limit=_PAGE)
        if entries:
            yield entries
        if before is None:
            return


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """Result of a verification: the number of entries, the last one, and the oldest one that does not match."""

    count: int = 0
    last: LedgerEntry | None = None
    broken: LedgerEntry | None = None
    why: str = ""
    #: Whether the whole ledger was read.
    is_complete: bool = True

    @property
    def finding(self) -> str | None:
        """The finding in one sentence; None if the chain is whole."""
        if self.broken is None:
            return None
        when = "" if self.broken.at is None else f" of {self.broken.at:%Y-%m-%d %H:%M:%S} UTC"
        named = f"({self.broken.actor}: {self.broken.action} {self.broken.target})"
        return f"ledger: entry {self.broken.number}{when} {named} {self.why}; do not trust the ledger from there on"


async def verify_ledger(store: LedgerStore, *, most: int | None = None) -> LedgerCheck:
    """Walk the chain, newest first, a page at a time; the whole of it, or about the `most` last entries."""
    count, newer, check = 0, None, LedgerCheck()
    last: LedgerEntry | None = None
    is_complete = True
    while page := await store.ledger(before=None if newer is None else newer.number, limit=_PAGE):
        last = last or page[0]
        count += len(page)
        for entry in page:
            if newer is not None and (why := _mismatch(newer, entry.number, entry.digest)):
                check = LedgerCheck(broken=newer, why=why)
            newer = entry
        if most is not None and count >= most:
            is_complete = False
            break
    if is_complete and newer is not None and newer.number <= 1 and (why := _mismatch(newer, 0, GENESIS)):
        check = LedgerCheck(broken=newer, why=why)
    return LedgerCheck(count, last, check.broken, check.why, is_complete)


def _mismatch(entry: LedgerEntry, number_before: int, digest_before: str) -> str:
    """Return what is wrong with an entry after a given one; empty if it matches."""
    if entry.number != number_before + 1:
        return f"does not follow entry {number_before}: entries in between are missing"
    if entry.at is None or entry.chained(entry.number, entry.at, digest_before).digest != entry.digest:
        return "does not fit its digest: it, or the digest before it, was changed"
    return ""

"""Submitting within the caller's transaction: on its connection, its thread and its loop.

Nothing of this goes through the portal: a connection belongs to whoever opened it, and is used where its owner is. For
the same reason no store is opened for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.errors import InvalidRequest
from rota.engine.guests import submit_within
from rota.ports.guest import Make
from rota.ports.store import Inserted
from rota.runtime.guests import guest_of, kind_of
from rota.sdk.options import Options


def transaction_of(submissions: Sequence[Options], tx: object | None) -> object | None:
    """Say in which transaction submissions are made: the one given for all, or the one that each of them names."""
    named = [own for options in submissions if (own := options.get("tx")) is not None]
    chosen = named[0] if tx is None and named else tx
    if any(own is not chosen for own in named) or (tx is None and 0 < len(named) < len(submissions)):
        raise InvalidRequest(
            "tx: these calls are not all for the same transaction; submit those of each by themselves", field="tx"
        )
    return chosen


def require_blocking(tx: object) -> None:
    """Refuse a connection that has to be awaited."""
    kind = kind_of(tx)
    if kind.is_async:
        raise InvalidRequest(f"tx: the {kind.name} has to be awaited; use asubmit or asubmit_many", field="tx")


def require_async(tx: object) -> None:
    """Refuse a connection that would block the loop."""
    kind = kind_of(tx)
    if not kind.is_async:
        raise InvalidRequest(f"tx: the {kind.name} would block the event loop; use submit or submit_many", field="tx")


async def submit_in(url: str, tx: object, make: Make, bound: int | None) -> Sequence[Inserted]:
    """Store jobs in a transaction. Suspends only if its connection is async."""
    return await submit_within(await guest_of(url, tx), make, bound=bound)

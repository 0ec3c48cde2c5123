"""Transactional submission: jobs are stored in the caller's own transaction, on its connection, thread and loop.

It does not go through the portal, because a connection may be used only on its owner's thread or loop. For the same
reason no store is opened for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rota.core.errors import InvalidRequest
from rota.core.waiting import Emission, Emitted
from rota.engine.caller_tx import emit_in_caller_tx, submit_in_caller_tx
from rota.ports.caller_tx import MakeJobs
from rota.ports.store import Inserted
from rota.runtime.caller_tx import caller_connection_of, kind_of
from rota.sdk.options import Options

if TYPE_CHECKING:
    from rota.encryption import Cipher


def transaction_of(submissions: Sequence[Options], tx: object | None) -> object | None:
    """Return the transaction of some submissions: the one given for all, or the one that each of them names."""
    named = [own for options in submissions if (own := options.get("tx")) is not None]
    chosen = named[0] if tx is None and named else tx
    if any(own is not chosen for own in named) or (tx is None and 0 < len(named) < len(submissions)):
        raise InvalidRequest(
            "tx: these calls are not all for the same transaction; submit the calls of each transaction separately",
            field="tx",
        )
    return chosen


def require_blocking(tx: object) -> None:
    """Refuse an async connection in a blocking submission."""
    kind = kind_of(tx)
    if kind.is_async:
        raise InvalidRequest(f"tx: the {kind.name} is async; use asubmit or asubmit_many", field="tx")


def require_async(tx: object) -> None:
    """Refuse a blocking connection in an async submission."""
    kind = kind_of(tx)
    if not kind.is_async:
        raise InvalidRequest(f"tx: the {kind.name} would block the event loop; use submit or submit_many", field="tx")


async def emit_in(url: str, tx: object, emission: Emission, cipher: Cipher | None = None) -> Emitted:
    """Emit an event in a transaction, encrypted if there are keys. Suspends only if its connection is async."""
    if cipher is not None:
        # Imported when needed: it is an extra.
        from rota.encryption.jobs import encrypted_emission  # noqa: PLC0415

        emission = encrypted_emission(cipher, emission)
    return await emit_in_caller_tx(await caller_connection_of(url, tx), emission)


async def submit_in(
    url: str, tx: object, make: MakeJobs, bound: int | None, cipher: Cipher | None = None
) -> Sequence[Inserted]:
    """Store jobs in a transaction, encrypted if there are keys. Suspends only if its connection is async."""
    transaction = await caller_connection_of(url, tx)
    if cipher is None:
        return await submit_in_caller_tx(transaction, make, bound=bound)
    # Imported when needed: it is an extra.
    from rota.encryption.jobs import submit_encrypted_in  # noqa: PLC0415

    return await submit_encrypted_in(lambda jobs: submit_in_caller_tx(transaction, jobs, bound=bound), make, cipher)

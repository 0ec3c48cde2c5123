"""What guests of all stores have in common: how to tell that they are in the right house, and when they are refused.

A driver that blocks and one that is awaited are used by the same code: what the first gives at once, `answered` passes
on, and so a coroutine over it runs to its end without ever suspending.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.core.errors import InvalidRequest
from rota.core.identity import JobId
from rota.core.submission import unknown_parent
from rota.ports.store import Inserted, Receipt
from rota.stores.migrations import Migration

#: Behind this point everything is ours, before it everything is the caller's.
SAVEPOINT: Final = "rota_submission"
#: How often to try again when others change what we look at.
ROUNDS: Final = 5
_REFUSALS: Final = frozenset({Receipt.KEY_REUSED, Receipt.ID_TAKEN, Receipt.QUEUE_FULL})


@dataclass(slots=True)
class Room:
    """What a guest does behind its savepoint, and whether it is to stay."""

    is_kept: bool = True


async def answered(answer: Any) -> Any:  # noqa: ANN401 - whatever a driver gives
    """Give what a driver answers: at once, or when it has come."""
    return await answer if inspect.isawaitable(answer) else answer


def has_refusal(answers: Iterable[Inserted]) -> bool:
    """Whether one of some submissions was refused, so that none of them may stay."""
    return any(answer.receipt in _REFUSALS for answer in answers)


def require_parents(parents: set[JobId], known: Iterable[JobId]) -> None:
    """Refuse jobs that are to wait for a job that is not there: they would be cancelled at once, and nobody told."""
    if missing := parents.difference(known):
        raise unknown_parent(min(missing))


def require_form(registered: Iterable[tuple[int, str]], migrations: Sequence[Migration], where: str) -> None:
    """Refuse a database that has not seen all of our migrations."""
    seen = set(registered)
    if not all((migration.number, migration.name) in seen for migration in migrations):
        raise foreign(where)


def foreign(where: str) -> InvalidRequest:
    """Say that a connection leads to no store of ours."""
    return InvalidRequest(
        f"tx: Rota's tables, as this release needs them, are not in {where}; connect to the store's database, and if"
        " that is what you did, prepare it with `rota db migrate`",
        field="tx",
    )


def without_transaction(remedy: str) -> InvalidRequest:
    """Say that there is no transaction to be a part of."""
    return InvalidRequest(
        f"tx: the connection commits each statement by itself, so there is no transaction to submit in; {remedy}",
        field="tx",
    )

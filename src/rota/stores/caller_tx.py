"""Caller transactions, shared by all stores: schema check, refusals, and one code path for blocking and async drivers.

`resolved` awaits what an async driver returns and passes on what a blocking driver returns, so a coroutine over a
blocking driver never suspends.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.core.errors import InvalidRequest
from rota.core.graph import NewWorkflow
from rota.core.ids import JobId
from rota.core.submission import NewJob, unknown_parent
from rota.ports.store import Inserted, Receipt
from rota.stores.migrations import Migration

#: What follows this savepoint is Rota's, what precedes it is the caller's.
SAVEPOINT: Final = "rota_submission"
#: How often to try again when concurrent transactions change the rows that were read.
MOST_TRIES: Final = 5
_REFUSALS: Final = frozenset({Receipt.KEY_REUSED, Receipt.ID_TAKEN, Receipt.QUEUE_FULL})


@dataclass(slots=True)
class Savepoint:
    """The savepoint of a submission, and whether it is kept or rolled back."""

    is_kept: bool = True


async def resolved(answer: Any) -> Any:  # noqa: ANN401 - whatever a driver gives
    """Return a driver's answer, awaited if it is awaitable."""
    return await answer if inspect.isawaitable(answer) else answer


def jobs_in(made: Sequence[NewJob] | NewWorkflow) -> Sequence[NewJob]:
    """Return the jobs of a submission."""
    return made.jobs if isinstance(made, NewWorkflow) else made


def has_refusal(made: Sequence[NewJob] | NewWorkflow, answers: Iterable[Inserted]) -> bool:
    """Whether a submission was refused, so that none of the batch may be kept; a workflow is new as a whole."""
    if isinstance(made, NewWorkflow):
        return any(answer.receipt is not Receipt.CREATED for answer in answers)
    return any(answer.receipt in _REFUSALS for answer in answers)


def require_parents(parents: set[JobId], known: Iterable[JobId]) -> None:
    """Refuse jobs that wait for an unknown job: they would be cancelled at once, without notice."""
    if missing := parents.difference(known):
        raise unknown_parent(min(missing))


def require_schema(registered: Iterable[tuple[int, str]], migrations: Sequence[Migration], where: str) -> None:
    """Refuse a database that lacks one of our migrations."""
    seen = set(registered)
    if not all((migration.number, migration.name) in seen for migration in migrations):
        raise not_our_database(where)


def not_our_database(where: str) -> InvalidRequest:
    """Make the error for a connection to a database without our tables."""
    return InvalidRequest(
        f"tx: Rota's tables, as this release needs them, are not in {where}; connect to the store's database, and if"
        " that is what you did, prepare it with `rota db migrate`",
        field="tx",
    )


def no_transaction(remedy: str) -> InvalidRequest:
    """Make the error for a connection in autocommit mode."""
    return InvalidRequest(
        f"tx: the connection commits each statement by itself, so there is no transaction to submit in; {remedy}",
        field="tx",
    )

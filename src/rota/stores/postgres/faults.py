"""What can go wrong with a server: faults that pass, faults of the request, and signs that the server is away."""

from __future__ import annotations

from typing import Final

import asyncpg
from asyncpg import exceptions

from rota.core.errors import InvalidRequest, RotaError, StoreUnavailable


class MovedError(Exception):
    """What was seen a moment ago is no longer there: someone deleted it between two statements."""


#: Two transactions stood in each other's way, or one saw what another was just writing: the next try sees it whole.
PASSING: Final = (
    exceptions.TransactionRollbackError,
    exceptions.UniqueViolationError,
    exceptions.InvalidCachedStatementError,
    exceptions.OutdatedSchemaCacheError,
    MovedError,
)

#: The request itself cannot be stored. asyncpg has two errors of this name, one of the server's and one of its own.
REFUSED: Final = (exceptions.DataError, exceptions.IntegrityConstraintViolationError, UnicodeEncodeError)

#: Whatever else a driver or a network can raise: the server is away, going away, coming back, full, or not the one that
#: writes any longer.
AWAY: Final = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

FAULTS: Final = (*PASSING, *REFUSED, *AWAY)


def told(error: BaseException) -> RotaError:
    """Say in our words what went wrong."""
    reason = str(error) or type(error).__name__
    if isinstance(error, REFUSED):
        return InvalidRequest(f"PostgreSQL cannot keep this: {reason}")
    return StoreUnavailable(f"PostgreSQL: {reason}")

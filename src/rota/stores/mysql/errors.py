"""Errors of the driver and the server as exceptions of this store."""

from __future__ import annotations

from typing import Final

from asyncmy import errors

from rota.core.errors import InvalidRequest


class RetryTransaction(Exception):
    """Deadlock or lock wait timeout: the whole transaction has to be run again."""


class ConnectionLost(Exception):
    """The connection is gone. What was not committed did not happen."""


class NoResponse(ConnectionLost):
    """The server did not respond in time. Other connections may be half-open too."""


class NothingSent(ConnectionLost):
    """The connection was lost before anything was sent that could have had an effect."""


class PipelineLost(NothingSent):
    """The connection was lost because a proxy does not support pipelining."""


class ConstraintViolated(Exception):
    """A constraint refused a row. The statement had no effect, the transaction goes on."""


class ConditionFailed(Exception):
    """A condition within a script was not met: the rest was not run, and the transaction has to be rolled back."""


class ServerRefused(Exception):
    """The server refuses: full disk, missing privileges, missing table."""


class NotPrivileged(ServerRefused):
    """The user may not do this."""


class StatementKilled(ServerRefused):
    """The statement was ended by KILL QUERY; the connection is intact."""


#: Deadlock, lock wait, and a row that changed under a snapshot.
_RETRY: Final = frozenset({1213, 1205, 1020, 1412})
CONSTRAINT_ERRORS: Final = frozenset({1062, 1048, 4025, 3819})
#: Too long, not text, out of range, larger than a packet: the request is at fault.
_UNSTORABLE: Final = frozenset({1406, 1366, 1264, 1153, 1300})
#: Connection errors of the client; and of the server: too many, shutting down, killed, network, idle, read only.
_LOST: Final = frozenset(
    {0, 2000, 2002, 2003, 2006, 2013, 2014, 2055}
    | {1040, 1053, 1129, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1290, 1792, 1836, 1927, 4031}
)
_KILLED: Final = 1317
_NOT_PRIVILEGED: Final = frozenset({1044, 1142, 1227})
#: Raised by SIGNAL in our statements.
_SIGNALLED: Final = 1644


def translate_error(error: Exception) -> Exception:
    """Return an error of the driver or the server as an exception of this store."""
    if isinstance(error, TimeoutError):
        return NoResponse("no response in time")
    if not isinstance(error, errors.MySQLError):
        return ConnectionLost(f"{type(error).__name__}: {error}")
    code, message = (*error.args, 0, "")[:2] if error.args else (0, str(error))
    text = f"{message} ({code})"
    if code in _RETRY:
        return RetryTransaction(text)
    if code in CONSTRAINT_ERRORS:
        return ConstraintViolated(text)
    if code == _SIGNALLED:
        return ConditionFailed(text)
    if code in _UNSTORABLE:
        return InvalidRequest(f"the database cannot store this: {text}")
    if code in _LOST or isinstance(error, errors.InterfaceError | errors.InternalError):
        return ConnectionLost(text)
    if code in _NOT_PRIVILEGED:
        return NotPrivileged(text)
    return StatementKilled(text) if code == _KILLED else ServerRefused(text)

"""How a command ends: the number that scripts read, and the two lines that people read."""

from __future__ import annotations

from enum import IntEnum

from rota.core.errors import InvalidRequest, SchemaTooNew, Unavailable


class Exit(IntEnum):
    """What an exit code means."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    JOB_FAILED = 5
    TIMED_OUT = 6
    NOT_AUTHORISED = 7
    UNREACHABLE = 8
    PROBLEMS_FOUND = 9
    INTERRUPTED = 130


class CommandFailed(Exception):
    """A command that cannot go on: the cause in one line, the remedy in another."""

    def __init__(self, cause: str, *, fix: str = "", code: Exit = Exit.ERROR) -> None:
        super().__init__(cause)
        self.fix = fix
        self.code = code


def code_of(error: Exception) -> Exit:
    """Give the exit code of an error."""
    if isinstance(error, Unavailable):
        return Exit.UNREACHABLE
    if isinstance(error, SchemaTooNew):
        return Exit.CONFLICT
    return Exit.USAGE if isinstance(error, InvalidRequest) else Exit.ERROR

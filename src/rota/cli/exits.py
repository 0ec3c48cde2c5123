"""Exit codes of commands, and the error of a failed command: cause and remedy."""

from __future__ import annotations

from enum import IntEnum

from rota.core.errors import InvalidRequest, SchemaTooNew, Unavailable


class Exit(IntEnum):
    """Exit codes, which scripts may rely on."""

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
    """A failed command: the cause is printed on one line, the remedy on another."""

    def __init__(self, cause: str, *, fix: str = "", code: Exit = Exit.ERROR) -> None:
        super().__init__(cause)
        self.fix = fix
        self.code = code


def code_of(error: Exception) -> Exit:
    if isinstance(error, Unavailable):
        return Exit.UNREACHABLE
    if isinstance(error, SchemaTooNew):
        return Exit.CONFLICT
    return Exit.USAGE if isinstance(error, InvalidRequest) else Exit.ERROR

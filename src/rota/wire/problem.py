"""The body of every error response: problem details (RFC 9457)."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class FieldError(Struct, kw_only=True):
    """What is wrong with one field."""

    field: str
    message: str


class Problem(Struct, kw_only=True, omit_defaults=True):
    """An error: a code for programs, a text for people, each wrong field by name, and the remedy."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldError] = []
    fix: str = ""
    #: Of a full queue: the position that the job would have, when it would start at the present rate, and when there is
    #: a place again, in seconds.
    position: int | None = None
    expected_start: datetime | None = None
    retry_after: float | None = None

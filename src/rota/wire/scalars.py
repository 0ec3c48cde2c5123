"""The small values of which the forms are made, with their limits, and what reads and shows them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta, Raw

from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest, JobNotFound
from rota.core.identity import ALPHABET, JobId, ScheduleId, to_number, to_text

#: Beyond these years the arithmetic of calendars ends, and with it what a schedule or a retry could promise.
EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
#: Fences are counts of claims; stores keep them in 64 bits.
_LARGEST_INTEGER: Final = 2**63 - 1

# The look ahead is for Python, whose `$` also stands before a last newline.
_PRINTABLE: Final = r"^[^\x00-\x1f\x7f]+(?!\n)$"

Name = Annotated[
    str, Meta(min_length=1, max_length=200, pattern=_PRINTABLE, description="A name without control characters.")
]
#: The same without the expression, which would cost more than all the rest of reading a job: `printable` looks instead.
TypeName = Annotated[
    str, Meta(min_length=1, max_length=200, description="The type of a job.", extra_json_schema={"pattern": _PRINTABLE})
]
_QUEUE: Final = r"^[^\s/,\x00-\x1f\x7f]+(?!\n)$"
QueueName = Annotated[
    str,
    Meta(min_length=1, max_length=100, pattern=_QUEUE, description="A queue: no blank, comma or slash."),
]
#: As above.
LaneName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        description="A queue: no blank, comma or slash.",
        extra_json_schema={"pattern": _QUEUE},
    ),
]
Identifier = Annotated[
    str,
    Meta(
        min_length=13,
        max_length=13,
        pattern=rf"^[0-7][{ALPHABET}]{{12}}(?!\n)$",
        description="An id of thirteen characters.",
    ),
]
Moment = Annotated[datetime, Meta(tz=True, description="A moment with its zone, RFC 3339.")]
#: A duration on the way in: seconds, or text with units.
Duration = (
    Annotated[float, Meta(ge=0, le=3_153_600_000, description="Seconds.")]
    | Annotated[str, Meta(min_length=1, max_length=40, description="With units: '90s', '5m', '1h30m', '2d'.")]
)
Seconds = Annotated[float, Meta(ge=0, description="Seconds.")]
Priority = Annotated[int, Meta(ge=1, le=10, description="1 is the least urgent, 10 the most.")]
Fence = Annotated[
    int, Meta(ge=0, le=_LARGEST_INTEGER, description="Counts the claims of a job; only the last one may write.")
]
Count = Annotated[int, Meta(ge=0)]
Text = Annotated[str, Meta(max_length=65_536)]
Line = Annotated[str, Meta(max_length=1_000)]

NULL: Final = Raw(b"null")


def printable(name: str, field: str) -> str:
    """Refuse a name with control characters."""
    if not name.isprintable() and re.search(_PRINTABLE, name) is None:
        raise InvalidRequest(f"{field}: {name[:40]!r} must have no control characters", field=field)
    return name


def usable_queue(name: str, field: str) -> str:
    """Refuse a queue with blanks, commas, slashes or control characters."""
    if not name.isalnum() and re.search(_QUEUE, name) is None:
        raise InvalidRequest(f"{field}: {name[:40]!r} must have no blank, comma or slash", field=field)
    return name


def duration_of(value: float | str | None, field: str) -> timedelta | None:
    """Read a duration that may be left out."""
    return None if value is None else parse_duration(value, field=field)


def seconds_of(span: timedelta | None) -> float | None:
    """Show a duration."""
    return None if span is None else span.total_seconds()


def moment_of(value: datetime | None, field: str) -> datetime | None:
    """Read a moment that may be left out; in UTC from here on."""
    if value is None:
        return None
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        moment = datetime.max.replace(tzinfo=UTC)
    if not EARLIEST <= moment <= LATEST:
        raise InvalidRequest(f"{field}: {value.isoformat()} must lie between the years 1970 and 9000", field=field)
    return moment


def job_id_of(text: str) -> JobId:
    """Read the id of a job."""
    return JobId(to_number(text))


def schedule_id_of(text: str) -> ScheduleId:
    """Read the id of a schedule."""
    return ScheduleId(to_number(text))


def id_within(text: str, field: str) -> JobId:
    """Read an id that stands inside a request: a bad one is a wrong value there, not a missing job."""
    try:
        return JobId(to_number(text))
    except JobNotFound as error:
        raise InvalidRequest(f"{field}: {error}", field=field) from None


def id_text(number: int | None) -> str | None:
    """Show an id that may be absent."""
    return None if number is None else to_text(number)


def raw(text: str | None) -> Raw:
    """Embed stored JSON as it is."""
    return NULL if text is None else Raw(text)


def no_value() -> Raw:
    """Give what stands where nothing was given."""
    return NULL

"""Scalar types of the forms, with their limits, and their conversion."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta, Raw

from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest, JobNotFound
from rota.core.ids import ALPHABET, JobId, ScheduleId, to_number, to_text

#: The range of times that are accepted: calendar arithmetic needs room before year 9999.
EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
#: Fences are counts of claims; stores keep them in 64 bits.
_LARGEST_INTEGER: Final = 2**63 - 1

# The lookahead is for Python, whose `$` also matches before a final newline.
_PRINTABLE: Final = r"^[^\x00-\x1f\x7f]+(?!\n)$"

Name = Annotated[
    str, Meta(min_length=1, max_length=200, pattern=_PRINTABLE, description="A name without control characters.")
]
#: Without the pattern, which would cost more than decoding the rest of a job; `check_type_name` checks instead.
UncheckedTypeName = Annotated[
    str, Meta(min_length=1, max_length=200, description="The type of a job.", extra_json_schema={"pattern": _PRINTABLE})
]
_QUEUE: Final = r"^[^\s/,\x00-\x1f\x7f]+(?!\n)$"
QueueName = Annotated[
    str,
    Meta(min_length=1, max_length=100, pattern=_QUEUE, description="A queue: no blank, comma or slash."),
]
#: Without the pattern, as above; `check_queue_name` checks instead.
UncheckedQueueName = Annotated[
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
Moment = Annotated[datetime, Meta(tz=True, description="A time with its zone, RFC 3339.")]
#: A duration in requests: seconds, or text with units.
Duration = (
    Annotated[float, Meta(ge=0, le=3_153_600_000, description="Seconds.")]
    | Annotated[str, Meta(min_length=1, max_length=40, description="With units: '90s', '5m', '1h30m', '2d'.")]
)
Seconds = Annotated[float, Meta(ge=0, description="Seconds.")]
Priority = Annotated[int, Meta(ge=1, le=10, description="1 is the least urgent, 10 the most.")]
Fence = Annotated[
    int, Meta(ge=0, le=_LARGEST_INTEGER, description="Counts the claims of a job; only the latest one may write.")
]
#: From the answer to a claim; needed where the server needs a token.
LeaseToken = Annotated[str, Meta(max_length=64)]
Count = Annotated[int, Meta(ge=0)]
Text = Annotated[str, Meta(max_length=65_536)]
ShortText = Annotated[str, Meta(max_length=1_000)]

NULL: Final = Raw(b"null")


def check_type_name(name: str, field: str) -> str:
    """Refuse a name with control characters."""
    if not name.isprintable() and re.search(_PRINTABLE, name) is None:
        raise InvalidRequest(f"{field}: {name[:40]!r} must have no control characters", field=field)
    if name.startswith("rota."):
        raise InvalidRequest(
            f"{field}: {name[:40]!r} is reserved: types that begin with 'rota.' are Rota's own", field=field
        )
    return name


def check_queue_name(name: str, field: str) -> str:
    """Refuse a queue with blanks, commas, slashes or control characters."""
    if not name.isalnum() and re.search(_QUEUE, name) is None:
        raise InvalidRequest(f"{field}: {name[:40]!r} must have no blank, comma or slash", field=field)
    return name


def duration_of(value: float | str | None, field: str) -> timedelta | None:
    return None if value is None else parse_duration(value, field=field)


def moment_of(value: datetime | None, field: str) -> datetime | None:
    """Convert an optional time to UTC."""
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
    return JobId(to_number(text))


def schedule_id_of(text: str) -> ScheduleId:
    return ScheduleId(to_number(text))


def id_in_field(text: str, field: str) -> JobId:
    """Convert an id in a field of a request: a malformed one is a wrong value, not a missing job."""
    try:
        return JobId(to_number(text))
    except JobNotFound as error:
        raise InvalidRequest(f"{field}: {error}", field=field) from None


def id_text(number: int | None) -> str | None:
    return None if number is None else to_text(number)


def raw(text: str | None) -> Raw:
    """Embed stored JSON unchanged."""
    return NULL if text is None else Raw(text)


def null_value() -> Raw:
    return NULL


def seconds_of(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()

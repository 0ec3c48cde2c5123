"""Durable waiting: a handler leaves its slot until a time, an event or the end of a child job, and is then run again.

A wait is a step of the job. A suspended job has no lease: it is `scheduled` while it sleeps, and `blocked` while it
waits for an event or a child. An event is a named fact: the first emission counts, and it answers every wait, also
later ones, until it expires.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final

from rota.core.duration import LONGEST
from rota.core.envelope import is_encrypted
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId, to_text
from rota.core.step import LARGEST_OUTCOME, LARGEST_STORED, StepKind, check_key
from rota.core.submission import LONGEST_NAME, Template
from rota.core.submission import check as check_template
from rota.core.value import value

#: How long an event answers waits if its emitter does not say.
DEFAULT_KEEP: Final = timedelta(days=30)
#: The path of the live stream, which is no event.
_RESERVED: Final = "stream"
#: Names that begin so are signals to one job: the id of the job follows.
_SIGNAL: Final = "job:"
_SPAN_KINDS: Final = frozenset({StepKind.SLEEP, StepKind.EVENT})


@value
class Wait:
    """A wait that a handler begins or comes back to.

    `span` is how long to sleep, or how long to wait for the event at most. `child` is the job that a call makes.
    """

    key: str
    kind: StepKind
    span: timedelta | None = None
    event: str | None = None
    child: Template | None = None


@value
class Emission:
    """An event to be emitted: its name, its payload as JSON text, and how long it answers waits."""

    name: str
    payload: str = "null"
    keep: timedelta = DEFAULT_KEEP


@value
class EmittedEvent:
    """An event as it is stored."""

    name: str
    payload: str
    at: datetime
    expires_at: datetime


@value
class Emitted:
    """The answer to an emission: the event as it is stored, whether this emission made it, and the jobs woken by queue.

    Further jobs that wait for it are woken by upkeep if there are very many.
    """

    event: EmittedEvent
    is_new: bool
    queues: Mapping[str, int] = field(default_factory=dict)


def signal_name(job_id: JobId, name: str) -> str:
    """Return the name of the event that is a signal to one job."""
    return f"{_SIGNAL}{to_text(job_id)}:{name}" if name else f"{_SIGNAL}{to_text(job_id)}"


def check_wait(wait: Wait) -> None:
    """Refuse a wait that cannot be stored, or whose parts do not fit its kind."""
    check_key(wait.key)
    if wait.kind is StepKind.EFFECT:
        raise InvalidRequest(f"step {wait.key!r}: an effect is no wait; intend it", field="kind")
    if (wait.event is not None) != (wait.kind is StepKind.EVENT):
        raise InvalidRequest(f"event: a step of kind {wait.kind} {_has(wait.event)} an event", field="event")
    if (wait.child is not None) != (wait.kind is StepKind.CALL):
        raise InvalidRequest(f"child: a step of kind {wait.kind} {_has(wait.child)} a child job", field="child")
    if wait.kind is StepKind.SLEEP and wait.span is None:
        raise InvalidRequest("span: a sleep has a length", field="span")
    if wait.span is not None and wait.kind not in _SPAN_KINDS:
        raise InvalidRequest(f"span: a step of kind {wait.kind} has no length", field="span")
    if wait.span is not None and not timedelta(0) <= wait.span <= LONGEST:
        raise InvalidRequest(f"span: {wait.span} must lie between 0 and {LONGEST.days} days", field="span")
    if wait.event is not None:
        check_event_name(wait.event)
    if wait.child is not None:
        check_template(wait.child)


def _has(part: object) -> str:
    return "needs" if part is None else "does not have"


def check_event_name(name: object) -> None:
    """Refuse a name that no event may have."""
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME:
        given = f"this one has {len(name)}" if isinstance(name, str) else f"{name!r} is no text"
        raise InvalidRequest(f"event: a name has 1 to {LONGEST_NAME} characters, {given}", field="event")
    if "/" in name or name == _RESERVED:
        message = (
            f"event: the name {name!a} cannot be part of an address; names have no '/', and {_RESERVED!r} is taken"
        )
        raise InvalidRequest(message, field="event")
    if not name.isprintable():
        raise InvalidRequest(f"event: the name {name!a} contains characters that are not printable", field="event")


def check_emission(emission: Emission) -> None:
    """Refuse an event that cannot be stored."""
    check_event_name(emission.name)
    size = len(emission.payload)
    if size > (LARGEST_STORED if is_encrypted(emission.payload) else LARGEST_OUTCOME):
        raise InvalidRequest(
            f"payload: {size:,} characters of JSON; at most {LARGEST_OUTCOME:,} are kept: store the data elsewhere and"
            " emit where",
            field="payload",
        )
    if not timedelta(0) < emission.keep <= LONGEST:
        message = f"keep: {emission.keep} must be longer than nothing, and at most {LONGEST.days} days"
        raise InvalidRequest(message, field="keep")

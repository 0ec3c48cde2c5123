"""The lifecycle of a job: states, events, and the table of legal moves.

A move that is not in the table is refused. The diagram of the docs is drawn from it, and a test walks it: every state
can be reached, every unfinished state can end, and only a running job becomes completed or dead.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from rota.core.errors import IllegalTransition


class State(StrEnum):
    """The state of a job."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    PENDING = "pending"
    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"


class Event(StrEnum):
    """What can happen to a job."""

    UNBLOCK = "unblock"
    POSTPONE = "postpone"
    DUE = "due"
    CLAIM = "claim"
    DISPATCH = "dispatch"
    RECALL = "recall"
    SUCCEED = "succeed"
    FAIL = "fail"
    EXHAUST = "exhaust"
    #: A lease lapsed. The stored word is older than the distinction between lapse (lease) and expiry (job).
    LAPSE = "expire"
    SNOOZE = "snooze"
    #: The handler waits for an event or a child job.
    SUSPEND = "suspend"
    RELEASE = "release"
    RETRY = "retry"
    CANCEL = "cancel"


FINISHED: Final = frozenset({State.COMPLETED, State.DEAD, State.CANCELLED})
WAITING: Final = frozenset({State.BLOCKED, State.SCHEDULED, State.PENDING, State.QUEUED, State.RETRYING})
#: States in which a job waits for its time; the promoter makes it pending.
TIMED: Final = frozenset({State.SCHEDULED, State.RETRYING})
#: States in which a job is due and waits for nothing but a worker.
DUE_STATES: Final = frozenset({State.PENDING, State.QUEUED})

MOVES: Final[Mapping[State, Mapping[Event, State]]] = MappingProxyType(
    {
        State.BLOCKED: MappingProxyType(
            {
                Event.UNBLOCK: State.PENDING,
                Event.POSTPONE: State.SCHEDULED,
                Event.CANCEL: State.CANCELLED,
            }
        ),
        State.SCHEDULED: MappingProxyType(
            {
                Event.DUE: State.PENDING,
                # Ahead of its time, by a worker that starts it at its time.
                Event.CLAIM: State.RUNNING,
                Event.RETRY: State.PENDING,
                Event.CANCEL: State.CANCELLED,
            }
        ),
        State.PENDING: MappingProxyType(
            {
                Event.CLAIM: State.RUNNING,
                Event.DISPATCH: State.QUEUED,
                Event.CANCEL: State.CANCELLED,
            }
        ),
        State.QUEUED: MappingProxyType(
            {
                Event.CLAIM: State.RUNNING,
                Event.RECALL: State.PENDING,
                Event.CANCEL: State.CANCELLED,
            }
        ),
        State.RUNNING: MappingProxyType(
            {
                Event.SUCCEED: State.COMPLETED,
                Event.FAIL: State.RETRYING,
                Event.EXHAUST: State.DEAD,
                Event.LAPSE: State.PENDING,
                Event.SNOOZE: State.SCHEDULED,
                Event.SUSPEND: State.BLOCKED,
                Event.RELEASE: State.PENDING,
                # Released before its time had come.
                Event.POSTPONE: State.SCHEDULED,
                Event.CANCEL: State.CANCELLED,
            }
        ),
        State.RETRYING: MappingProxyType(
            {
                Event.DUE: State.PENDING,
                Event.CLAIM: State.RUNNING,
                Event.RETRY: State.PENDING,
                Event.CANCEL: State.CANCELLED,
            }
        ),
        State.DEAD: MappingProxyType({Event.RETRY: State.PENDING}),
        State.CANCELLED: MappingProxyType({Event.RETRY: State.PENDING}),
        State.COMPLETED: MappingProxyType({}),
    }
)

_REMEDIES: Final = {
    (State.COMPLETED, Event.RETRY): "submit a new one",
    (State.COMPLETED, Event.CANCEL): "it has already run",
    (State.RUNNING, Event.RETRY): "cancel it first, or wait until it ends",
    (State.PENDING, Event.RETRY): "it is already waiting for a worker",
    (State.QUEUED, Event.RETRY): "it is already waiting for a worker",
    (State.BLOCKED, Event.RETRY): "it waits for other jobs or for an event; explain it to see which",
    (State.DEAD, Event.CANCEL): "it has already ended",
    (State.CANCELLED, Event.CANCEL): "it has already ended",
}


def move(state: State, event: Event, *, subject: str = "job") -> State:
    """Return the state after an event, or refuse it with a remedy."""
    target = MOVES[state].get(event)
    if target is None:
        remedy = _REMEDIES.get((state, event)) or "what it can do next is: " + (", ".join(MOVES[state]) or "nothing")
        raise IllegalTransition(f"{subject}: cannot {event} a {state} job; {remedy}")
    return target

"""Test data builders: times, ids, a manual clock, and core values with defaults.

Nothing here reads the real clock or random numbers, so a failing test fails again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final

from rota.core.decision import DecisionInputs
from rota.core.ids import JobId, ScheduleId, compose
from rota.core.job import Job
from rota.core.lease import Claim, WorkerId
from rota.core.ledger import LedgerEntry
from rota.core.outcome import Failed
from rota.core.schedule import Schedule
from rota.core.settlement import JobError
from rota.core.submission import Dependency, IdempotencyKey, Need, NewJob, Template, request_hash

#: The moment at which tests begin. With microseconds, so that a store that rounds fails.
BASE: Final = datetime(2026, 3, 1, 12, 0, 0, 123_457, tzinfo=UTC)
SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
MICROSECOND: Final = timedelta(microseconds=1)

ADA: Final = WorkerId("ada", "boot-1")
BEN: Final = WorkerId("ben", "boot-2")

_numbers = count(1)


def at(seconds: float) -> datetime:
    """Return a time, in seconds after `BASE`."""
    return BASE + timedelta(seconds=seconds)


@dataclass(slots=True)
class ManualClock:
    """A wall clock that tests move, and a monotonic clock that goes with it but is never set."""

    moment: datetime = BASE
    seconds: float = 0.0

    def __call__(self) -> datetime:
        return self.moment

    def move(self, span: timedelta) -> None:
        """Advance both clocks."""
        self.moment += span
        self.seconds += span.total_seconds()

    def step(self, span: timedelta) -> None:
        """Set the wall clock only."""
        self.moment += span

    def steady(self) -> float:
        """Return the seconds that have passed."""
        return self.seconds


@dataclass(slots=True)
class Ids:
    """Ids as the product makes them, in the order of their making, from a counter instead of clock and rng."""

    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __call__(self) -> JobId:
        number = next(self.numbers)
        return JobId(compose(int(BASE.timestamp() * 1000) + number, number))


fresh_id: Final = Ids(_numbers)


def fresh_schedule_id() -> ScheduleId:
    return ScheduleId(fresh_id())


def new_job(job_type: str = "mail", **fields: Any) -> NewJob:  # noqa: ANN401 - any field of a job
    """Make a submission that differs from a plain one only in `fields`."""
    return NewJob(**{"id": fresh_id(), "type": job_type, **fields})


def new_jobs(number: int, job_type: str = "mail", **fields: Any) -> list[NewJob]:  # noqa: ANN401 - as above
    return [new_job(job_type, **fields) for _ in range(number)]


def key(name: str, body: bytes = b"body", **fields: Any) -> IdempotencyKey:  # noqa: ANN401 - as above
    return IdempotencyKey(key=name, request=request_hash(body), **fields)


def after(*parents: NewJob | JobId, need: Need = Need.SUCCESS) -> tuple[Dependency, ...]:
    """Wait for these jobs."""
    return tuple(Dependency(parent.id if isinstance(parent, NewJob) else parent, need) for parent in parents)


def claim(worker: WorkerId = ADA, limit: int = 100, **fields: Any) -> Claim:  # noqa: ANN401 - as above
    return Claim(worker=worker, limit=limit, **fields)


def means(now: datetime = BASE, follow_up_id: JobId | None = None) -> DecisionInputs:
    """Bring what a decision needs, with rng that always show the middle."""
    return DecisionInputs(now=now, rng=0.5, follow_up_id=fresh_id() if follow_up_id is None else follow_up_id)


def error(message: str = "connection refused", kind: str = "OSError") -> JobError:
    return JobError(kind=kind, message=message, traceback=f"Traceback: {message}")


def failure(message: str = "connection refused", *, permanent: bool = False) -> Failed:
    return Failed(error(message), permanent=permanent)


def entry(action: str = "cancel", target: str = "job", actor: str = "olga") -> LedgerEntry:
    return LedgerEntry(actor=actor, action=action, target=target, origin="127.0.0.1", detail="by hand")


def schedule(name: str = "nightly", rule: str = "@every 1m", **fields: Any) -> Schedule:  # noqa: ANN401 - as above
    """Make a schedule that has never been stored and is due a minute after the tests begin."""
    plain = Schedule(
        id=fresh_schedule_id(),
        name=name,
        rule=rule,
        template=Template(type="report"),
        created_at=BASE,
        updated_at=BASE,
    )
    made = replace(plain, **fields)
    return made if "next_fire_at" in fields else replace(made, next_fire_at=made.next_after(BASE))


def ids_of(jobs: list[Job] | list[NewJob] | Any) -> list[JobId]:  # noqa: ANN401 - whatever has ids
    return [job.id for job in jobs]

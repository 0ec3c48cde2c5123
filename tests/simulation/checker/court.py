"""The judge's own picture of the world: a twin of every job, and what was found wrong so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from simulation.checker.verdict import Finding, Record, Verdict

FINISHED: Final = frozenset({"completed", "dead", "cancelled"})
#: Waiting for its time.
TIMED: Final = frozenset({"scheduled", "retrying"})
AGING_MICROS: Final = 3_600_000_000
#: An id is the milliseconds since 2024, and a number within the millisecond.
IDS_BEGIN_AT: Final = 1_704_067_200_000
SEQUENCE_BITS: Final = 22


@dataclass(slots=True)
class Twin:
    """A job as it ought to be."""

    id: int
    queue: str
    type: str
    priority: int
    delivery: str
    max_attempts: int
    run_at: int
    #: When it became or becomes due; a time before its submission is worth nothing.
    due_at: int
    expires_at: int | None
    state: str
    on_success: bool
    on_failure: bool
    #: What the store submits by itself if a dependency of the job fails; times count from then.
    failure_job: dict[str, Any] | None = None
    concurrency_key: str | None = None
    parent_id: int | None = None
    schedule_id: int | None = None
    #: The parents that have not ended yet, and what is needed of each.
    waits: dict[int, str] = field(default_factory=dict)
    fence: int = 0
    attempts: int = 0
    crashes: int = 0
    lease_until: int = 0
    claimed_at: int = 0
    #: When its lease was given or last renewed, by the steady clock, and for how long.
    leased_at: int = 0
    leased_for: int = 0
    #: When it was claimed under which fence.
    claims: dict[int, int] = field(default_factory=dict)
    holder: str = ""
    #: A cancel is in force, until an operator says otherwise; and when its asker heard that it is.
    is_cancelled: bool = False
    cancel_heard_at: int | None = None
    #: The store has promoted some of several, and we cannot tell which.
    is_vague: bool = False
    #: Where it was passed over although it could have been given: a wrong order, if it is ever given.
    passed_over: tuple[Record, str] | None = None
    starts: int = 0
    #: The fence under which a handler began last.
    starts_under: int = 0
    last_event: str = ""
    #: The numbers of all records that touched this job.
    trail: list[int] = field(default_factory=list)

    @property
    def is_finished(self) -> bool:
        """Whether its life is over."""
        return self.state in FINISHED

    @property
    def turn(self) -> int:
        """When its turn is among those that are due; lower goes first."""
        return self.due_at - self.priority * AGING_MICROS


@dataclass(slots=True)
class Key:
    """What an idempotency key stands for, and until when."""

    job: int
    request: str
    expires_at: int


class Court:
    """Everything the rules share."""

    def __init__(self, dump: dict[str, Any]) -> None:
        self.dump = dump
        self.verdict = Verdict()
        self.jobs: dict[int, Twin] = {}
        #: Jobs that were pruned and whose id came again: a request without a key, repeated after its job was forgotten.
        self.departed: list[Twin] = []
        self.pending: dict[int, Twin] = {}
        self.children: dict[int, list[Twin]] = {}
        self.keys: dict[tuple[str, str], Key] = {}
        #: Jobs that were given out and that nobody handed in; what they are shows when their rows are looked at.
        self.strangers: dict[int, Record] = {}
        #: What each named claim gave, by job and fence; and when it first gave something.
        self.claims: dict[str, dict[int, int]] = {}
        self.claimed_at: dict[str, int] = {}
        self.fired: dict[tuple[int, int], int] = {}
        self.firings: list[dict[str, Any]] = []
        self.schedules: dict[int, dict[str, Any]] = {}
        #: For which moment each schedule is armed, and at which version.
        self.armed: dict[int, tuple[int | None, int]] = {}
        #: Since when each schedule is armed too late, by the steady clock.
        self.armed_late_since: dict[int, int] = {}
        #: When each host's process was started.
        self.booted_at: dict[str, int] = {}
        #: Until when each host did not see the store's clock for several seconds.
        self.blind_until: dict[str, int] = {}
        self.entries: list[list[str]] = []
        self.acknowledged: dict[int, int] = {}
        #: What each attempt came to, by job and fence; and when the store first told its worker to stop it.
        self.ends: dict[tuple[int, int], str] = {}
        self.told_to_stop: dict[tuple[int, int], int] = {}
        #: The job that each submission made last.
        self.submissions: dict[str, Twin] = {}
        #: The latest moment the store's clock has shown, and when the nemesis last meddled with it.
        self.clock = 0
        self.clock_meddled_at = -1
        #: The times at which it was wrong for so short a time that no scheduler need have seen it.
        self.clock_flickers: list[tuple[int, int]] = []
        #: Whether jobs may have to wait for others of their key, and with it the order of turns does not hold.
        self.has_keys = False
        #: The limits of the world by name, and the times at which jobs started under each.
        self.limits: dict[str, dict[str, Any]] = {}
        self.limited_starts: dict[str, list[int]] = {}
        #: Of each key whose jobs could have started since it started one: which jobs each other key has started.
        self.overtaken: dict[str, dict[str, set[int]]] = {}
        #: How far the store's clock was ahead of the true time when it was last looked at.
        self.clock_ahead = 0

    def blame(self, invariant: str, message: str, record: Record | None, *twins: Twin) -> None:
        """Write a violation down, with everything that happened to the jobs it is about."""
        numbers = {number for twin in twins for number in twin.trail}
        if record is not None:
            numbers.add(record["number"])
        job = twins[0].id if twins else None
        self.verdict.findings.append(Finding(invariant, message, tuple(sorted(numbers)), job))

    def move(self, twin: Twin, state: str) -> None:
        """Bring a twin into a state."""
        if twin.state == "pending":
            self.pending.pop(twin.id, None)
        twin.state = state
        twin.is_vague = False
        if state == "pending":
            self.pending[twin.id] = twin

    def create(self, told: dict[str, Any], record: Record, state: str | None = None) -> Twin:
        """Make the twin of a new job; without a `state` it is reckoned from its time and its parents."""
        now = record["clock"]
        run_at = now if told["run_at"] is None else told["run_at"]
        twin = Twin(
            id=told["id"],
            queue=told["queue"],
            type=told["type"],
            priority=told["priority"],
            delivery=told["delivery"],
            max_attempts=told["max_attempts"],
            run_at=run_at,
            due_at=max(run_at, now),
            expires_at=told["expires_at"],
            state="blocked" if told["after"] else "scheduled" if run_at > now else "pending",
            on_success=told["on_success"],
            on_failure=told["on_failure"],
            failure_job=told.get("failure_job"),
            concurrency_key=told.get("concurrency_key"),
            parent_id=told["parent_id"],
            schedule_id=told["schedule_id"],
            trail=[record["number"]],
        )
        former = self.jobs.get(twin.id)
        if former is not None:
            if not former.is_finished:
                self.blame("I11", "overwritten by another job of the same id", record, former)
            self.departed.append(former)
        self.jobs[twin.id] = twin
        self.move(twin, twin.state)
        self._tie(twin, told["after"], now)
        if state is not None:
            # A parent that had completed may have been pruned: then the store cannot tell, and counts it as failed.
            is_failed = state == "cancelled" and twin.state != state
            self.move(twin, state)
            if is_failed and twin.failure_job is not None:
                self._follow_failure(twin, twin.failure_job, now)
        return twin

    def _tie(self, twin: Twin, after: list[list[Any]], now: int) -> None:
        """Let a job wait for its parents; those that have ended are judged at once."""
        for parent_id, need in sorted(after, key=lambda wait: wait[1] != "success"):
            twin.waits.setdefault(parent_id, need)
            self.children.setdefault(parent_id, []).append(twin)
        for parent_id in list(twin.waits):
            parent = self.jobs.get(parent_id)
            # A parent that is not there was pruned, or never made: what it came to can no longer be told.
            if parent is None or parent.is_finished:
                self.release(twin, parent_id, None if parent is None else parent.state, now)

    def release(self, child: Twin, parent_id: int, state: str | None, now: int) -> None:
        """Tell a waiting job what became of a parent."""
        need = child.waits.pop(parent_id, None)
        if need is None or child.state != "blocked":
            return
        if need == "end" or state == "completed":
            if not child.waits:
                child.run_at = child.due_at = max(child.run_at, now)
                self.move(child, "scheduled" if child.run_at > now else "pending")
        else:
            self.finish(child, "cancelled", now)
            if child.failure_job is not None:
                self._follow_failure(child, child.failure_job, now)

    def _follow_failure(self, child: Twin, made: dict[str, Any], now: int) -> None:
        """Make the twin of the job that follows a job whose dependency failed: the store made it at this moment."""
        milliseconds = max(now // 1000 - IDS_BEGIN_AT, 0)
        number = milliseconds << SEQUENCE_BITS | child.id % (1 << SEQUENCE_BITS)
        while number in self.jobs:
            number += 1
        times = {name: None if made[name] is None else now + made[name] for name in ("run_at", "expires_at")}
        told = {**made, **times, "id": number, "parent_id": child.id}
        self.create(told, {"clock": now, "number": child.trail[-1]})

    def finish(self, twin: Twin, state: str, now: int) -> None:
        """End a job, and tell everyone who waits for it."""
        self.move(twin, state)
        twin.waits.clear()
        for child in self.children.get(twin.id, ()):
            self.release(child, twin.id, state, now)

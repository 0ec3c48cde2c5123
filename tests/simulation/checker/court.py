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
class Wait:
    """A durable wait as it ought to be."""

    key: str
    kind: str
    until: int | None
    #: The name of the event, or the id of the child.
    subject: Any
    is_done: bool = False
    outcome: Any = None
    #: The event may end it: it was begun, and the event had not come.
    is_registered: bool = False
    #: Whether it ended by its event or by its time is not known.
    is_vague: bool = False


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
    #: Why it was cancelled; what its completed attempt returned; what it takes from the jobs before it.
    reason: str | None = None
    result: Any = None
    takes: str | None = None
    #: What is needed of each of the jobs that it came after, in its own order.
    parents: dict[int, str] = field(default_factory=dict)
    #: Its durable waits by key, and the key of the one for which it is blocked.
    steps: dict[str, Wait] = field(default_factory=dict)
    wait: str | None = None
    #: When it was made and when an operator last had it run again, by the steady clock.
    made_at: int = 0
    renewed_at: int = -1
    ended_at: int = -1
    has_failed: bool = False
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
class Workflow:
    """A graph as it ought to be: the current job of each node, and all jobs that nodes have had."""

    id: int
    policy: str
    parents: list[list[list[Any]]]
    current: list[int]
    jobs: list[int]
    #: The positions of nodes that are there for a failure or any end, or come after such nodes.
    after_failures: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Emitted:
    """An event as it ought to be."""

    payload: Any
    expires_at: int


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
        self.workflows: dict[int, Workflow] = {}
        #: The workflow of each job that is the current one of a node, and its position.
        self.nodes: dict[int, tuple[Workflow, int]] = {}
        #: The job that made each submission of a workflow.
        self.submitted_workflows: dict[str, Workflow] = {}
        self.events: dict[str, Emitted] = {}
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
            takes=told.get("takes"),
            made_at=record.get("at", 0),
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
            if is_failed:
                twin.reason = "dependency_failed"
                twin.waits.clear()
                self.follow_failures([], [twin], now)
        return twin

    def _tie(self, twin: Twin, after: list[list[Any]], now: int) -> None:
        """Let a job wait for its parents; those that have ended are judged at once."""
        for parent_id, need in sorted(after, key=lambda wait: wait[1] != "success"):
            twin.waits.setdefault(parent_id, need)
            self.children.setdefault(parent_id, []).append(twin)
        twin.parents = {parent_id: twin.waits[parent_id] for parent_id, _ in after}
        if twin.waits:
            self.follow_failures([], self.release(list(twin.waits), now), now)

    # Ends, and what follows from them

    def release(self, parents: list[int], now: int) -> list[Twin]:
        """Tell waiting jobs what became of their parents, and those that wait for them in turn.

        Return the jobs that were cancelled because a dependency failed.
        """
        failed: list[Twin] = []
        while parents:
            told = sorted(
                {(parent, child.id) for parent in parents for child in self.children.get(parent, ()) if child.waits}
            )
            parents = []
            for parent_id, child_id in told:
                child = self.jobs.get(child_id)
                if child is None or parent_id not in child.waits:
                    continue
                status = self._status(child.waits[parent_id], parent_id)
                if status == "wait":
                    continue
                del child.waits[parent_id]
                if child.state != "blocked":
                    continue
                if status == "met":
                    if not child.waits:
                        child.run_at = child.due_at = max(child.run_at, now)
                        self.move(child, "scheduled" if child.run_at > now else "pending")
                    continue
                self._cancel(child, status, now)
                parents.append(child_id)
                if status == "dependency_failed":
                    failed.append(child)
        return failed

    def _status(self, need: str, parent_id: int) -> str:
        """Say whether a dependency is met, waits, or for which reason the job that has it never runs."""
        parent = self.jobs.get(parent_id)
        if parent is None:
            # Pruned, or never made: what it came to can no longer be told.
            return "met" if need == "end" else "dependency_failed"
        if not parent.is_finished:
            return "wait"
        if need == "end":
            return "met"
        if parent.reason == "not_needed":
            return "not_needed"
        has_succeeded = parent.state == "completed" or parent.reason == "skipped"
        if need == "failure":
            return "not_needed" if has_succeeded else "met"
        return "met" if has_succeeded else "dependency_failed"

    def follow_failures(self, dead: list[Twin], cancelled: list[Twin], now: int) -> None:
        """Replay what follows from failures: the follow-ups of cancelled jobs, and workflows that fail fast."""
        failed = [*dead, *cancelled]
        while failed:
            for child in sorted(cancelled, key=lambda one: one.id):
                if child.failure_job is not None:
                    self._follow_failure(child, child.failure_job, now)
            cancelled = failed = self.release(self.stop(self._failing_fast(failed), "workflow_failed", now), now)

    def _failing_fast(self, failed: list[Twin]) -> list[int]:
        """Find the other jobs of workflows that fail fast, but for those that are there for a failure."""
        ids: set[int] = set()
        for twin in failed:
            workflow, _ = self.nodes.get(twin.id, (None, 0))
            if workflow is None or workflow.policy != "fail_fast":
                continue
            ids |= {job for place, job in enumerate(workflow.current) if place not in workflow.after_failures}
        return sorted(one for one in ids if one in self.jobs and not self.jobs[one].is_finished)

    def stop(self, ids: list[int], reason: str, now: int) -> list[int]:
        """Cancel jobs that wait, and ask those that run to stop; return those that were cancelled."""
        cancelled = []
        for one in ids:
            twin = self.jobs.get(one)
            if twin is None or twin.is_finished:
                continue
            if twin.state == "running":
                twin.is_cancelled = True
            else:
                self._cancel(twin, reason, now)
                cancelled.append(one)
        return cancelled

    def _cancel(self, twin: Twin, reason: str, now: int) -> None:
        self.move(twin, "cancelled")
        twin.reason, twin.has_failed, twin.ended_at = reason, True, now
        twin.waits.clear()

    def _follow_failure(self, child: Twin, made: dict[str, Any], now: int) -> None:
        """Make the twin of the job that follows a job whose dependency failed: the store made it at this moment."""
        milliseconds = max(now // 1000 - IDS_BEGIN_AT, 0)
        number = milliseconds << SEQUENCE_BITS | child.id % (1 << SEQUENCE_BITS)
        while number in self.jobs:
            number += 1
        times = {name: None if made[name] is None else now + made[name] for name in ("run_at", "expires_at")}
        told = {**made, **times, "id": number, "parent_id": child.id}
        self.create(told, {"clock": now, "number": child.trail[-1], "at": child.made_at})

    def finish(self, twin: Twin, state: str, now: int, reason: str | None = None) -> None:
        """End a job, and tell everyone who waits for it."""
        self.move(twin, state)
        twin.reason = reason
        self.follow([twin], now)

    def follow(self, ended: list[Twin], now: int) -> None:
        """Tell everyone who waits for some jobs that they have ended, all at once."""
        for twin in ended:
            twin.waits.clear()
            twin.ended_at = now
            twin.has_failed |= twin.state != "completed"
        cancelled = self.release([twin.id for twin in ended], now)
        failed = [
            twin
            for twin in ended
            if twin.state == "dead" or (twin.state == "cancelled" and twin.reason in {"expired", "dependency_failed"})
        ]
        self.follow_failures(failed, cancelled, now)

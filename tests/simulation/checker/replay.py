"""The checker's own model: what each job, wait, workflow and event has to be by now, and the violations so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from simulation.checker.violations import Record, Report, Violation

FINISHED: Final = frozenset({"completed", "dead", "cancelled"})
#: Waiting for its time.
TIMED: Final = frozenset({"scheduled", "retrying"})
AGING_MICROS: Final = 3_600_000_000
#: An id is the milliseconds since 2024, and a number within the millisecond.
IDS_BEGIN_AT: Final = 1_704_067_200_000
SEQUENCE_BITS: Final = 22


@dataclass(slots=True)
class Wait:
    """A durable wait as it has to be."""

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
    #: The job was suspended after the time of the wait, which may have been ended before: that woke no job.
    may_be_over: bool = False


@dataclass(slots=True)
class ExpectedJob:
    """A job as it has to be."""

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
    #: A cancel is in force until an operator retries the job; and when its requester got the answer.
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
    """A graph as it has to be: the current job of each node, and all jobs that nodes have had."""

    id: int
    policy: str
    parents: list[list[list[Any]]]
    current: list[int]
    jobs: list[int]
    #: The positions of nodes that are there for a failure or any end, or come after such nodes.
    after_failures: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Emitted:
    """An event as it has to be."""

    payload: Any
    expires_at: int


@dataclass(slots=True)
class Key:
    """What an idempotency key stands for, and until when."""

    job: int
    request: str
    expires_at: int


class Replay:
    """The state that the checks share."""

    def __init__(self, dump: dict[str, Any]) -> None:
        self.dump = dump
        self.report = Report()
        self.jobs: dict[int, ExpectedJob] = {}
        #: Jobs that were pruned and whose id came again: a request without a key, repeated after its job was forgotten.
        self.replaced_jobs: list[ExpectedJob] = []
        self.pending: dict[int, ExpectedJob] = {}
        self.children: dict[int, list[ExpectedJob]] = {}
        self.keys: dict[tuple[str, str], Key] = {}
        #: Jobs that were leased and that no process submitted; the dump shows what they are.
        self.unknown_jobs: dict[int, Record] = {}
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
        #: What each attempt came to, by job and fence; and when the store first asked its worker to stop it.
        self.ends: dict[tuple[int, int], str] = {}
        self.told_to_stop: dict[tuple[int, int], int] = {}
        #: The job that each submission made last.
        self.submissions: dict[str, ExpectedJob] = {}
        #: The latest moment the store's clock has shown, and when a fault last changed it.
        self.clock = 0
        self.clock_disturbed_at = -1
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

    def flag(self, invariant: str, message: str, record: Record | None, *expected_jobs: ExpectedJob) -> None:
        """Add a violation, with the records of the jobs that it is about."""
        numbers = {number for expected in expected_jobs for number in expected.trail}
        if record is not None:
            numbers.add(record["number"])
        job = expected_jobs[0].id if expected_jobs else None
        self.report.violations.append(Violation(invariant, message, tuple(sorted(numbers)), job))

    def move(self, expected: ExpectedJob, state: str) -> None:
        """Change the state of a job."""
        if expected.state == "pending":
            self.pending.pop(expected.id, None)
        expected.state = state
        expected.is_vague = False
        if state == "pending":
            self.pending[expected.id] = expected

    def create(self, fields: dict[str, Any], record: Record, state: str | None = None) -> ExpectedJob:
        """Add a new job; without a `state` that follows from its time and its parents."""
        now = record["clock"]
        run_at = now if fields["run_at"] is None else fields["run_at"]
        expected = ExpectedJob(
            id=fields["id"],
            queue=fields["queue"],
            type=fields["type"],
            priority=fields["priority"],
            delivery=fields["delivery"],
            max_attempts=fields["max_attempts"],
            run_at=run_at,
            due_at=max(run_at, now),
            expires_at=fields["expires_at"],
            state="blocked" if fields["after"] else "scheduled" if run_at > now else "pending",
            on_success=fields["on_success"],
            on_failure=fields["on_failure"],
            failure_job=fields.get("failure_job"),
            concurrency_key=fields.get("concurrency_key"),
            parent_id=fields["parent_id"],
            schedule_id=fields["schedule_id"],
            takes=fields.get("takes"),
            made_at=record.get("at", 0),
            trail=[record["number"]],
        )
        former = self.jobs.get(expected.id)
        if former is not None:
            if not former.is_finished:
                self.flag("I11", "overwritten by another job of the same id", record, former)
            self.replaced_jobs.append(former)
        self.jobs[expected.id] = expected
        self.move(expected, expected.state)
        self._tie(expected, fields["after"], now)
        if state is not None:
            # A parent that had completed may have been pruned: then the store cannot tell, and counts it as failed.
            is_failed = state == "cancelled" and expected.state != state
            self.move(expected, state)
            if is_failed:
                expected.reason = "dependency_failed"
                expected.waits.clear()
                self.follow_failures([], [expected], now)
        return expected

    def _tie(self, expected: ExpectedJob, after: list[list[Any]], now: int) -> None:
        """Let a job wait for its parents; those that have ended decide at once."""
        for parent_id, need in sorted(after, key=lambda wait: wait[1] != "success"):
            expected.waits.setdefault(parent_id, need)
            self.children.setdefault(parent_id, []).append(expected)
        expected.parents = {parent_id: expected.waits[parent_id] for parent_id, _ in after}
        if expected.waits:
            self.follow_failures([], self.release(list(expected.waits), now), now)

    # Ends, and what follows from them

    def release(self, parents: list[int], now: int) -> list[ExpectedJob]:
        """Tell waiting jobs what became of their parents, and those that wait for them in turn.

        Return the jobs that were cancelled because a dependency failed.
        """
        failed: list[ExpectedJob] = []
        while parents:
            pairs = sorted(
                {(parent, child.id) for parent in parents for child in self.children.get(parent, ()) if child.waits}
            )
            parents = []
            for parent_id, child_id in pairs:
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
            # Pruned, or never made: what it came to is no longer known.
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

    def follow_failures(self, dead: list[ExpectedJob], cancelled: list[ExpectedJob], now: int) -> None:
        """Replay what follows from failures: the follow-ups of cancelled jobs, and workflows that fail fast."""
        failed = [*dead, *cancelled]
        while failed:
            for child in sorted(cancelled, key=lambda one: one.id):
                if child.failure_job is not None:
                    self._follow_failure(child, child.failure_job, now)
            cancelled = failed = self.release(self.stop(self._failing_fast(failed), "workflow_failed", now), now)

    def _failing_fast(self, failed: list[ExpectedJob]) -> list[int]:
        """Find the other jobs of workflows that fail fast, but for those that are there for a failure."""
        ids: set[int] = set()
        for expected in failed:
            workflow, _ = self.nodes.get(expected.id, (None, 0))
            if workflow is None or workflow.policy != "fail_fast":
                continue
            ids |= {job for place, job in enumerate(workflow.current) if place not in workflow.after_failures}
        return sorted(one for one in ids if one in self.jobs and not self.jobs[one].is_finished)

    def stop(self, ids: list[int], reason: str, now: int) -> list[int]:
        """Cancel jobs that wait, and ask those that run to stop; return those that were cancelled."""
        cancelled = []
        for one in ids:
            expected = self.jobs.get(one)
            if expected is None or expected.is_finished:
                continue
            if expected.state == "running":
                expected.is_cancelled = True
            else:
                self._cancel(expected, reason, now)
                cancelled.append(one)
        return cancelled

    def _cancel(self, expected: ExpectedJob, reason: str, now: int) -> None:
        self.move(expected, "cancelled")
        expected.reason, expected.has_failed, expected.ended_at = reason, True, now
        expected.waits.clear()

    def _follow_failure(self, child: ExpectedJob, made: dict[str, Any], now: int) -> None:
        """Add the follow-up of a job whose dependency failed: the store makes it at this moment."""
        milliseconds = max(now // 1000 - IDS_BEGIN_AT, 0)
        number = milliseconds << SEQUENCE_BITS | child.id % (1 << SEQUENCE_BITS)
        while number in self.jobs:
            number += 1
        times = {name: None if made[name] is None else now + made[name] for name in ("run_at", "expires_at")}
        fields = {**made, **times, "id": number, "parent_id": child.id}
        self.create(fields, {"clock": now, "number": child.trail[-1], "at": child.made_at})

    def finish(self, expected: ExpectedJob, state: str, now: int, reason: str | None = None) -> None:
        """End a job, and tell everyone who waits for it."""
        self.move(expected, state)
        expected.reason = reason
        self.follow([expected], now)

    def follow(self, ended: list[ExpectedJob], now: int) -> None:
        """Tell everyone who waits for some jobs that they have ended, all at once."""
        for expected in ended:
            expected.waits.clear()
            expected.ended_at = now
            expected.has_failed |= expected.state != "completed"
        cancelled = self.release([expected.id for expected in ended], now)
        failed = [
            expected
            for expected in ended
            if expected.state == "dead"
            or (expected.state == "cancelled" and expected.reason in {"expired", "dependency_failed"})
        ]
        self.follow_failures(failed, cancelled, now)

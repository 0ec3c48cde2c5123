"""Submissions of jobs whose concurrency key may be full (`on_full`): the decisions that all stores share.

A key is full if as many of its jobs in the queue of the new one run or are pending as may run at once. Other queues do
not count: a caller that may use one queue must neither see nor stop jobs in another. The store reads these jobs under
the lock that claims of keys take, so that none starts meanwhile, and calls `FullKeys` for each new job that is due at
once. Jobs with a later time, and those that Rota makes itself (of schedules, workflows, follow-ups, retries), wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.job import first_state
from rota.core.lifecycle import State
from rota.core.limit import Limit, OnFull, key_limit, limit_of_key, task_limit, task_of_key
from rota.core.submission import NewJob
from rota.core.time import from_micros
from rota.ports.store import Inserted, Receipt


class KeyJob(NamedTuple):
    """A running or pending job of a key."""

    id: JobId
    state: State
    is_asked_to_stop: bool = False


def due_keyed(jobs: Sequence[NewJob], now: int) -> list[NewJob]:
    """Return the jobs with a concurrency key that are due at once."""
    keyed = [job for job in jobs if job.concurrency_key is not None]
    moment = from_micros(now)
    return [one for one in keyed if first_state(one.run_at or moment, moment, blocked=bool(one.after)) is State.PENDING]


def names_of_keys(jobs: Iterable[NewJob]) -> list[str]:
    """Return the names of the limits whose `on_full` may apply to some jobs with a key."""
    keys = {(job.concurrency_key or "", job.type) for job in jobs}
    return sorted({name for key, type_ in keys for name in (key_limit(key), task_limit(task_of_key(key, type_)))})


def policies(jobs: Iterable[NewJob], stored: Iterable[Limit]) -> dict[JobId, Limit]:
    """Return the limits of the keys of some jobs, of those that do more than wait if the key is full."""
    limits = {limit.name: limit for limit in stored}
    limits_by_job = {job.id: limit_of_key(job.concurrency_key or "", job.type, limits) for job in jobs}
    return {
        job_id: limit
        for job_id, limit in limits_by_job.items()
        if limit.max_running is not None and limit.on_full not in {None, OnFull.WAIT}
    }


def refuse_in_callers_transaction(jobs: Iterable[NewJob], stored: Iterable[Limit]) -> None:
    """Refuse jobs whose keys would have to be locked until a caller's transaction ends."""
    for limit in policies(jobs, stored).values():
        remedy = "would keep all keys locked until your transaction ends; submit it outside of one"
        raise InvalidRequest(
            f"concurrency_key: {limit.name.removeprefix('key:')!a} has on_full={limit.on_full!s}, which {remedy}",
            field="concurrency_key",
        )


class FullKeys:
    """The running and pending jobs of keys, with their queues; decides about new jobs of these keys."""

    def __init__(self, policies_: Mapping[JobId, Limit], jobs: Iterable[tuple[str, str, KeyJob]]) -> None:
        self._policies = policies_
        self._jobs: dict[tuple[str, str], list[KeyJob]] = {}
        for key, queue, job in jobs:
            self._jobs.setdefault((key, queue), []).append(job)
        #: Jobs that make room for a new one, and new ones that are cancelled at once.
        self.replaced: list[JobId] = []
        self.cancelled: list[JobId] = []

    def dropped(self, job: NewJob) -> Inserted | None:
        """Return the answer to a submission that makes no job; None if it makes one."""
        limit = self._policies.get(job.id)
        if limit is None or limit.on_full != OnFull.DROP:
            return None
        others = self._others(job)
        if len(others) < (limit.max_running or 1):
            return None
        return Inserted(others[0].id, Receipt.DROPPED, others[0].state)

    def note_made(self, job: NewJob) -> State:
        """Note that a job was made, and which jobs are cancelled for it; return its state."""
        limit = self._policies.get(job.id)
        if limit is None:
            return State.PENDING
        others = self._others(job)
        most = limit.max_running or 1
        if len(others) >= most and limit.on_full == OnFull.CANCEL_NEWEST:
            self.cancelled.append(job.id)
            return State.CANCELLED
        gone: list[KeyJob] = []
        if limit.on_full == OnFull.CANCEL_OLDEST:
            gone = [one for one in others if not one.is_asked_to_stop]
            gone = gone[: max(len(gone) - most + 1, 0)]
        elif limit.on_full == OnFull.REPLACE and len(others) >= most:
            gone = [one for one in others if one.state is State.PENDING]
        self.replaced += [one.id for one in gone]
        stopped = {one.id for one in gone}
        left = [one._replace(is_asked_to_stop=True) if one.id in stopped else one for one in others]
        left = [one for one in left if one.state is State.RUNNING or not one.is_asked_to_stop]
        self._jobs[job.concurrency_key or "", job.queue] = [*left, KeyJob(job.id, State.PENDING)]
        return State.PENDING

    def _others(self, job: NewJob) -> list[KeyJob]:
        return self._jobs.get((job.concurrency_key or "", job.queue), [])


NO_FULL_KEYS: Final = FullKeys({}, ())

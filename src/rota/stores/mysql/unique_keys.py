"""Keys of unique, throttled and debounced jobs, in the table of idempotency keys.

The transaction of a submission has the keys locked (`insert.py`). A key that did not exist then is inserted with its
job; if another transaction inserts the same key meanwhile, one of the two is run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rota.core.ids import JobId
from rota.core.job import turn_at
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.core.time import from_micros
from rota.core.unique_keys import KeyDecision, KeyHolder, UniqueKey, debounced_time, decide
from rota.ports.store import Inserted
from rota.stores.mysql.driver import Runner, chunks
from rota.stores.mysql.state_tables import lock_jobs, lock_ready, move_rows
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row
from rota.stores.unique_keys import receipt_of, replaced_times

#: Scope and key.
KeyName = tuple[str, str]


class UniqueKeys:
    """The jobs that hold the locked keys of some submissions, and those that take one in this transaction."""

    def __init__(self, connection: Runner, holders: Mapping[KeyName, KeyHolder], now: int) -> None:
        self._connection = connection
        self._holders = dict(holders)
        self._now = now
        #: Jobs that are made in this transaction and not stored yet.
        self._made: dict[JobId, int] = {}

    @classmethod
    async def read(cls, connection: Runner, jobs: Iterable[NewJob], locked: Sequence[Row], now: int) -> UniqueKeys:
        """Read the jobs of the keys that exist and are locked."""
        names = {job.unique.name_for(job.type, job.queue) for job in jobs if job.unique is not None}
        ids = {(row[0], row[1]): JobId(row[3]) for row in locked if (row[0], row[1]) in names}
        holders = await _holders(connection, sorted(set(ids.values())), "key_holders")
        # A locked key is read as it is now; a caller's transaction may read an older snapshot, without the key's job.
        unseen = sorted(set(ids.values()) - holders.keys())
        holders |= await _holders(connection, unseen, "lock_key_holders")
        return cls(connection, {name: holders[job_id] for name, job_id in ids.items() if job_id in holders}, now)

    async def repeated(self, job: NewJob, key: UniqueKey, made: list[NewJob]) -> Inserted | None:
        """Answer a submission whose key an earlier job has, also one of `made`; None if no job of this key counts."""
        holder = self._holders.get(key.name_for(job.type, job.queue))
        decision = decide(key, holder, from_micros(self._now))
        if holder is None or decision is KeyDecision.FREE:
            return None
        if decision is KeyDecision.REPLACE and not await self._replace(job, key, holder, made):
            return None
        return Inserted(holder.job_id, receipt_of(job, key, holder), holder.state)

    def take(self, job: NewJob, key: UniqueKey, state: State, place: int) -> None:
        """Record that a job about to be stored has a key; `place` is its position in the batch."""
        self._holders[key.name_for(job.type, job.queue)] = KeyHolder(job.id, state, 0, from_micros(self._now))
        self._made[job.id] = place

    async def _replace(self, job: NewJob, key: UniqueKey, holder: KeyHolder, made: list[NewJob]) -> bool:
        """Give a waiting job the payload of a later submission, and let it wait anew; False if a worker took it."""
        if (place := self._made.get(holder.job_id)) is not None:
            made[place] = _replaced(made[place], job, key, holder)
            return True
        connection = self._connection
        placement = (await lock_jobs(connection, [holder.job_id])).get(holder.job_id)
        if placement is None or placement.fence or placement.state is not holder.state:
            return False
        if placement.state is State.PENDING and not await lock_ready(connection, [placement]):
            return False
        then = placement
        if placement.state is State.SCHEDULED:
            run_at, expires_at = replaced_times(job, key, holder)
            then = replace(placement, run_at=run_at, turn=turn_at(run_at, placement.priority), expires_at=expires_at)
        row = (job.payload, then.run_at, then.turn, then.expires_at, self._now, holder.job_id)
        await connection.update_each(statement("replace_debounced"), [row])
        if then is not placement:
            await move_rows(connection, [placement], [then])
        return True


def _replaced(first: NewJob, job: NewJob, key: UniqueKey, holder: KeyHolder) -> NewJob:
    """Return a job that is not stored yet with the payload and the times of a later one."""
    assert job.run_at is not None
    run_at = debounced_time(key, job.run_at, holder)
    expires_at = None if job.expires_at is None else run_at + (job.expires_at - job.run_at)
    return replace(first, payload=job.payload, run_at=run_at, expires_at=expires_at)


async def _holders(connection: Runner, ids: Sequence[JobId], how: str) -> dict[JobId, KeyHolder]:
    holders: dict[JobId, KeyHolder] = {}
    for chunk in chunks(ids):
        for job_id, state, fence, created_at in await connection.rows(statement(how), {"ids": chunk}):
            holders[job_id] = KeyHolder(JobId(job_id), State(state), fence, from_micros(created_at))
    return holders

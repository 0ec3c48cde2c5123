"""State tables: one narrow table for each state in which a job waits, runs or is finished, and moves between them.

A transaction that moves a job has it locked: by its row in `rota_ready` (the job is pending and no claim can take it),
by its row in `rota_lease` (it runs), or else by its row in `rota_job`. Rows are locked in the order of ids;
transactions that still deadlock are run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rota.core.ids import JobId
from rota.core.lifecycle import FINISHED, TIMED, State
from rota.core.value import value
from rota.stores.mysql.driver import Runner, chunks
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row

#: Tables whose keys begin with text columns, and the names of those in the statements.
_KEY_PREFIXES: Final = {
    "ready": ("queue", "type", "concurrency_key"),
    "finished": ("state",),
    "sequence": ("concurrency_key",),
}
#: Tables whose rows stay as they are while the job is unfinished.
_LASTING: Final = ("expiry", "sequence")
_STATES: Final = {state.value: state for state in State}


@value
class Placement:
    """The columns of a job that decide which state tables have a row of it, and what a move copies from its lease."""

    id: JobId
    state: State
    queue: str
    type: str
    priority: int
    turn: int
    run_at: int
    expires_at: int | None = None
    finished_at: int | None = None
    fingerprint: str | None = None
    fence: int = 0
    blockers: int = 0
    lease_until: int | None = None
    cancel_requested_at: int | None = None
    worker: str | None = None
    boot: str | None = None
    started_at: int | None = None
    attempts: int = 0
    crashes: int = 0
    concurrency_key: str | None = None

    @property
    def ready_key(self) -> Row:
        return self.queue, self.type, self.concurrency_key or "", self.turn, self.id

    def rows(self) -> Iterator[tuple[str, Any, Row]]:
        """Yield each state table that has a row of the job, with the key of the row and the row."""
        if self.state is State.PENDING:
            yield "ready", self.ready_key, (*self.ready_key, self.run_at, self.expires_at)
        elif self.state in TIMED:
            row = (self.run_at, self.id, self.state.value, self.queue, self.type)
            yield "scheduled", (self.run_at, self.id), row
        elif self.state in FINISHED:
            key = (self.state.value, self.finished_at, self.id)
            yield "finished", key, (*key, self.fingerprint, self.type if self.state is State.DEAD else None)
        elif self.state is not State.RUNNING:
            yield "held", self.id, (self.id, self.state.value, self.queue, self.type)
        else:
            # Only claims insert leases.
            yield "lease", self.id, ()
        if self.expires_at is not None and self.state not in FINISHED:
            yield "expiry", (self.expires_at, self.id), (self.expires_at, self.id)
        if self.concurrency_key is not None and self.state not in FINISHED:
            yield "sequence", (self.concurrency_key, self.id), (self.concurrency_key, self.id)


async def move_rows(connection: Runner, before: Sequence[Placement], after: Sequence[Placement]) -> None:
    """Delete the state rows of jobs as they were, and insert those of jobs as they are now."""
    old = {(table, key): None for one in before for table, key, _ in one.rows()}
    new = {(table, key): row for one in after for table, key, row in one.rows()}
    deleted: dict[str, list[Any]] = {}
    for table, key in old:
        # A row that would be inserted unchanged stays.
        if (table, key) not in new or table not in _LASTING:
            deleted.setdefault(table, []).append(key)
    inserted: dict[str, list[Row]] = {}
    for (table, key), row in new.items():
        if table not in _LASTING or (table, key) not in old:
            inserted.setdefault(table, []).append(row)
    for table, keys in deleted.items():
        delete_rows(connection, table, keys)
    await insert_rows(connection, inserted)


async def insert_rows(connection: Runner, inserted: Mapping[str, Sequence[Row]]) -> None:
    for table, rows in inserted.items():
        if len(rows) == 1:
            connection.defer(statement(f"insert_{table}"), rows[0])
        elif rows:
            await connection.many(statement(f"insert_{table}"), rows)
    connection.has_made_work |= any(rows for table, rows in inserted.items() if table != "finished")


def delete_rows(connection: Runner, table: str, keys: Sequence[Any]) -> None:
    for parameters in _by_prefix(table, keys):
        connection.defer(statement(f"delete_{table}"), parameters)


def _by_prefix(table: str, keys: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of statements: keys with equal text columns together, in chunks."""
    names = _KEY_PREFIXES.get(table, ())
    groups: dict[Row, list[Any]] = {}
    for key in keys:
        prefix, rest = (key[: len(names)], key[len(names) :]) if names else ((), key)
        groups.setdefault(prefix, []).append(rest)
    for prefix, rests in groups.items():
        for chunk in chunks(rests):
            yield {**dict(zip(names, prefix, strict=True)), "keys": json.dumps(chunk)}


async def lock_jobs(connection: Runner, ids: Sequence[JobId], how: str = "lock_jobs") -> dict[JobId, Placement]:
    """Lock jobs until the transaction ends, with the statement `how`, and return their placements."""
    placements: dict[JobId, Placement] = {}
    for chunk in chunks(sorted(ids)):
        for row in await connection.rows(statement(how), {"ids": chunk}):
            placements[row[0]] = Placement(row[0], _STATES[row[1]], *row[2:])
    return placements


async def lock_ready(connection: Runner, pending: Sequence[Placement]) -> set[JobId]:
    """Of pending jobs whose rows in `rota_job` are locked, lock those that no claim has taken, and return their ids."""
    locked: set[JobId] = set()
    for parameters in _by_prefix("ready", [placement.ready_key for placement in pending]):
        locked.update(job_id for (job_id,) in await connection.rows(statement("lock_ready"), parameters))
    return locked

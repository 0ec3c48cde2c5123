"""Where jobs stand: one narrow table for each kind of waiting, and the moves between them.

Whoever moves a job keeps it locked: by its row in `ready` (then it is pending and nobody claims it), by its `lease`
(then it runs), or else by its row in `job`. Rows are locked in the order of ids; what still collides is run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rota.core.identity import JobId
from rota.core.lifecycle import FINISHED, TIMED, State
from rota.core.value import value
from rota.stores.mysql.driver import Runner, lists
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row

#: Tables whose keys begin with words, and how the statements call those.
_PARTED: Final = {"ready": ("queue", "type"), "finished": ("state",)}
_STATES: Final = {state.value: state for state in State}


@value
class Standing:
    """How a job stands: all that decides where its rows are, and what a move must know of its lease."""

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

    @property
    def ready_key(self) -> Row:
        """What its row in `ready` is found by."""
        return self.queue, self.type, self.turn, self.id

    def places(self) -> Iterator[tuple[str, Any, Row]]:
        """Give each table it stands in, the key of its row there, and the row."""
        if self.state is State.PENDING:
            yield "ready", self.ready_key, (*self.ready_key, self.run_at, self.expires_at)
        elif self.state in TIMED:
            row = (self.run_at, self.id, self.state.value, self.queue, self.type)
            yield "scheduled", (self.run_at, self.id), row
        elif self.state in FINISHED:
            key = (self.state.value, self.finished_at, self.id)
            yield "finished", key, (*key, self.fingerprint)
        elif self.state is not State.RUNNING:
            yield "held", self.id, (self.id, self.state.value, self.queue, self.type)
        else:
            # Only claims make leases.
            yield "lease", self.id, ()
        if self.expires_at is not None and self.state not in FINISHED:
            yield "expiry", (self.expires_at, self.id), (self.expires_at, self.id)


async def shift(connection: Runner, before: Sequence[Standing], after: Sequence[Standing]) -> None:
    """Let jobs stand no longer as they did, but as they do now."""
    leaving = {(table, key): None for one in before for table, key, _ in one.places()}
    entering = {(table, key): row for one in after for table, key, row in one.places()}
    left: dict[str, list[Any]] = {}
    for table, key in leaving:
        # A row that would come back the same stays; a lease never comes back.
        if (table, key) not in entering or table != "expiry":
            left.setdefault(table, []).append(key)
    entered: dict[str, list[Row]] = {}
    for (table, key), row in entering.items():
        if table != "expiry" or (table, key) not in leaving:
            entered.setdefault(table, []).append(row)
    for table, keys in left.items():
        leave(connection, table, keys)
    await enter(connection, entered)


async def enter(connection: Runner, entered: Mapping[str, Sequence[Row]]) -> None:
    """Insert rows of jobs into places."""
    for table, rows in entered.items():
        if len(rows) == 1:
            connection.defer(statement(f"enter_{table}"), rows[0])
        elif rows:
            await connection.many(statement(f"enter_{table}"), rows)
    connection.has_made_work |= any(rows for table, rows in entered.items() if table != "finished")


def leave(connection: Runner, table: str, keys: Sequence[Any]) -> None:
    """Delete the rows of jobs from a place."""
    for parameters in _parted(table, keys):
        connection.defer(statement(f"leave_{table}"), parameters)


def _parted(table: str, keys: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Cut keys into lists for statements: those that begin with the same words together, the words by their names."""
    names = _PARTED.get(table, ())
    parts: dict[Row, list[Any]] = {}
    for key in keys:
        words, rest = (key[: len(names)], key[len(names) :]) if names else ((), key)
        parts.setdefault(words, []).append(rest)
    for words, rests in parts.items():
        for some in lists(rests):
            yield {**dict(zip(names, words, strict=True)), "keys": json.dumps(some)}


async def lock(connection: Runner, ids: Sequence[JobId], how: str = "lock_jobs") -> dict[JobId, Standing]:
    """Give how jobs stand, and keep them so until the transaction ends."""
    found: dict[JobId, Standing] = {}
    for some in lists(sorted(ids)):
        for row in await connection.rows(statement(how), {"ids": some}):
            found[row[0]] = Standing(row[0], _STATES[row[1]], *row[2:])
    return found


async def own(connection: Runner, pending: Sequence[Standing]) -> set[JobId]:
    """Of pending jobs whose rows we keep locked, give those that nobody is claiming, and keep claimers from them."""
    owned: set[JobId] = set()
    for parameters in _parted("ready", [standing.ready_key for standing in pending]):
        owned.update(job_id for (job_id,) in await connection.rows(statement("own_ready"), parameters))
    return owned

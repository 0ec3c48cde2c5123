"""Which index of SQLite gives the candidates of a list. Each is named: SQLite would often rather take another."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from typing import Final

from rota.core.identity import JobId
from rota.core.instant import to_micros
from rota.core.lifecycle import FINISHED, State
from rota.ports.store import JobQuery
from rota.stores.listing import Condition, Question, Stream
from rota.stores.rows import Row, ids_text
from rota.stores.sqlite.statements import statement

#: More lanes than this are not looked at one by one.
MOST_LANES: Final = 50
#: The condition of job_waiting, which must be repeated word for word, or SQLite does not see that it holds.
_IS_WAITING: Final = (
    "(state = 'pending' OR state = 'scheduled' OR state = 'retrying' OR state = 'blocked' OR state = 'queued')"
)
#: Of these there are few, whatever else there is.
_RARE: Final = frozenset({State.RUNNING, State.RETRYING, State.BLOCKED, State.QUEUED})
_NEXT_QUEUE: Final = "SELECT queue FROM job INDEXED BY job_lane WHERE queue >= ? ORDER BY queue LIMIT 1"
_NEXT_TYPE: Final = "SELECT type FROM job INDEXED BY job_lane WHERE queue = ? AND type >= ? ORDER BY type LIMIT 1"

Lanes = list[tuple[str, str]]


class SqliteDialect:
    """Lists on SQLite."""

    select = statement("find")
    job_id = "id"
    finished_at = "finished_at"
    walk = Stream("job", "true")

    def placeholder(self, number: int) -> str:  # noqa: ARG002 - places are filled in their order
        """Write the place of a value."""
        return "?"

    def streams(self, query: JobQuery) -> Generator[Question, Sequence[Row], Sequence[Stream]]:
        """Choose the indexes by which a list is found."""
        if query.tag is not None:
            return [Stream("tag", "tag = {}", (query.tag,), id="job_id")]
        if query.schedule_id is not None:
            return [Stream("job INDEXED BY job_schedule", "schedule_id = {}", (query.schedule_id,))]
        if query.fingerprint is not None:
            condition = "state = 'dead' AND fingerprint = {}"
            return [Stream("job INDEXED BY job_dead", condition, (query.fingerprint,))]
        has_few_states = bool(query.states) and _RARE.issuperset(query.states)
        if (query.types or query.queues) and not has_few_states:
            lanes = yield from _lanes(query)
            if lanes is not None:
                return [Stream("job INDEXED BY job_lane", "queue = {} AND type = {}", lane) for lane in lanes] or [
                    _NOTHING
                ]
        if query.states and FINISHED.isdisjoint(query.states):
            return [_unfinished(state) for state in dict.fromkeys(query.states)]
        return []

    def finished(self, state: State) -> Stream:
        """Give the index of finished jobs by their end."""
        return Stream("job INDEXED BY job_finished", "finished_at IS NOT NULL AND state = {}", (state.value,))

    def among(self, ids: Sequence[JobId]) -> Condition:
        """Write that a job is one of these."""
        return "id IN (SELECT value FROM json_each({}))", (ids_text(ids),)

    def conditions(self, query: JobQuery) -> Iterator[Condition]:
        """Write what a query asks for; with a plus, so that no other index is taken for it."""
        listed = {"state": [state.value for state in query.states], "type": query.types, "queue": query.queues}
        for column, values in listed.items():
            if values:
                yield f"+{column} IN (SELECT value FROM json_each({{}}))", (json.dumps(values),)  # noqa: S608
        if query.tag is not None:
            yield "EXISTS (SELECT 1 FROM tag WHERE tag = {} AND job_id = job.id)", (query.tag,)
        for column, value in {"worker": query.worker, "schedule_id": query.schedule_id}.items():
            if value is not None:
                yield f"+{column} = {{}}", (value,)
        if query.fingerprint is not None:
            yield "+state = 'dead' AND +fingerprint = {}", (query.fingerprint,)
        if query.created_from is not None:
            yield "created_at >= {}", (to_micros(query.created_from),)
        if query.created_until is not None:
            yield "created_at < {}", (to_micros(query.created_until),)


#: The list of a lane that does not exist.
_NOTHING: Final = Stream("job", "false")


def _unfinished(state: State) -> Stream:
    if state is State.RUNNING:
        # By id they are not ordered there, but never many.
        return Stream("job INDEXED BY job_lease", "state = 'running'")
    return Stream("job INDEXED BY job_waiting", f"{_IS_WAITING} AND state = {{}}", (state.value,))


def _lanes(query: JobQuery) -> Generator[Question, Sequence[Row], Lanes | None]:
    """Find the lanes that a query asks for, by leaps over job_lane; None if they are many."""
    queues = list(dict.fromkeys(query.queues)) or (yield from _leaps(_NEXT_QUEUE, []))
    lanes: Lanes = []
    for queue in queues:
        types = list(dict.fromkeys(query.types)) or (yield from _leaps(_NEXT_TYPE, [queue]))
        lanes += [(queue, type_) for type_ in types]
        if len(lanes) > MOST_LANES:
            return None
    return lanes


def _leaps(sql: str, values: list[str]) -> Generator[Question, Sequence[Row], list[str]]:
    """Give the different names that a statement finds, one behind another, up to one more than are looked at."""
    names: list[str] = []
    while len(names) <= MOST_LANES:
        found = yield sql, [*values, names[-1] + "\0" if names else ""]
        if not found:
            break
        names.append(found[0][0])
    return names

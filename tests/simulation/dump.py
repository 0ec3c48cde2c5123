"""What is left in the store when a run is over, as plain values; read through the port."""

from __future__ import annotations

from typing import Any, Final

from rota.ports.store import JobQuery, Store
from simulation import describe

Dump = dict[str, Any]

_ALL: Final = 100_000


async def dump(store: Store) -> Dump:
    """Read everything that the checker compares."""
    schedules = await store.schedules()
    census = await store.census()
    return {
        "jobs": [describe.stored_job(job) for job in await store.find(JobQuery(limit=_ALL))],
        "schedules": [
            describe.schedule(schedule)
            | {"occurrences": [describe.occurrence(one) for one in await store.occurrences(schedule.id, limit=_ALL)]}
            for schedule in schedules
        ],
        "census": {
            "living": [[one.lane.queue, one.lane.type, str(one.state), one.count] for one in census.lanes],
            "finished": {str(state): count for state, count in census.finished.items()},
            "pruned": {str(state): count for state, count in census.pruned.items()},
        },
        "ledger": [describe.entry_of(entry) for entry in await store.ledger(limit=_ALL)],
        "damage": list(await store.check()),
        "workflows": [
            {
                "id": one.id,
                "nodes": [
                    [node.position, node.job_id, node.replaced_by, None if node.state is None else str(node.state)]
                    for node in await store.nodes(one.id)
                ],
            }
            for one in await store.workflows(limit=_ALL)
        ],
    }

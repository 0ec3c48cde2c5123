"""W17: a worker drains jobs under limits: of its queue, and of a thousand keys."""

from __future__ import annotations

from typing import Final

from bench.drain import BY, PAYLOAD, drain, engine_on, stage_for, start_worker
from bench.measure import Sample
from bench.places import Place
from bench.workloads.lines import Line, rate
from rota.core.limit import Limit, queue_limit, task_limit
from rota.core.submission import NewJob
from rota.engine import Engine

SLOTS: Final = 200
KEYS: Final = 1000
TYPE: Final = "suspends"


async def limited(place: Place, *, jobs: int, rounds: int) -> list[Line]:
    """Drain without limits, with one of the queue, and with one for each key, in turn."""
    rates: dict[str, list[float]] = {"none": [], "queue": [], "keys": []}
    for _ in range(rounds):
        for kind, found in rates.items():
            url = await place.fresh()
            async with stage_for(url) as stage, engine_on(url) as engine:
                start_worker(stage, "w", "--concurrency", str(SLOTS))
                await _set_limit(engine, kind)
                submit = _submit_keyed if kind == "keys" else None
                found.append(await drain(engine, jobs, TYPE, ["w"], submit))
    samples = {name: Sample(tuple(found)) for name, found in rates.items()}
    plain = samples["none"].median
    return [
        Line(f"no limit, {SLOTS} slots", rate(samples["none"])),
        Line("one limit of the queue", rate(samples["queue"]), "no limit", samples["queue"].median / plain),
        Line(f"{KEYS} keys, two at once", rate(samples["keys"]), "no limit", samples["keys"].median / plain),
    ]


async def _set_limit(engine: Engine, kind: str) -> None:
    if kind == "queue":
        await engine.limits.put(Limit(queue_limit("default"), SLOTS), BY)
    elif kind == "keys":
        await engine.limits.put(Limit(task_limit(TYPE), per_key_max_running=2), BY)


async def _submit_keyed(engine: Engine, number: int, job_type: str) -> None:
    for start in range(0, number, KEYS):
        keys = [f"{job_type}:{one}" for one in range(min(KEYS, number - start))]
        await engine.submit([NewJob(engine.fresh_id(), job_type, PAYLOAD, concurrency_key=key) for key in keys])

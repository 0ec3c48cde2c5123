"""W17: a worker drains jobs under limits: of its queue, and of a thousand keys; and claims past a closed key."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Final

from bench.drain import BY, PAYLOAD, drain, engine_on, start_worker, system_for
from bench.fresh_stores import FreshStores
from bench.measure import Sample, percentile
from bench.workloads.results import Line, at_least, at_most, rate
from rota.core.lease import Claim, WorkerId
from rota.core.limit import Limit, key_limit, queue_limit, task_limit
from rota.core.outcome import Succeeded
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.client import AttemptReport

SLOTS: Final = 200
KEYS: Final = 1000
TYPE: Final = "suspends"
#: How many jobs of the closed key wait, and how many claims are timed in a turn.
CLOSED_JOBS: Final = 10_000
CLAIMS: Final = 200
_CLOSED: Final = "a-closed-key"
_ONE: Final = Claim(WorkerId("bench", "bench"), 1, queues=("default",), types=(TYPE,), lease=timedelta(seconds=15))


async def limited(fresh_stores: FreshStores, *, jobs: int, rounds: int) -> list[Line]:
    """Drain without limits, with one of the queue, and with one for each key, in turn."""
    rates: dict[str, list[float]] = {"none": [], "queue": [], "keys": []}
    for _ in range(rounds):
        for kind, found in rates.items():
            url = await fresh_stores.fresh()
            async with system_for(url) as system, engine_on(url) as engine:
                start_worker(system, "w", "--concurrency", str(SLOTS))
                await _set_limit(engine, kind)
                submit = _submit_keyed if kind == "keys" else None
                found.append(await drain(engine, jobs, TYPE, ["w"], submit))
    samples = {name: Sample(tuple(found)) for name, found in rates.items()}
    plain = samples["none"].median
    queue, keys = samples["queue"].median / plain, samples["keys"].median / plain
    return [
        Line(f"no limit, {SLOTS} slots", rate(samples["none"])),
        Line("one limit of the queue", rate(samples["queue"]), "no limit", queue, at_least(0.75)),
        Line(f"{KEYS} keys, two at once", rate(samples["keys"]), "no limit", keys, at_least(0.6)),
        *await past_closed_key(fresh_stores, rounds=rounds),
    ]


async def past_closed_key(fresh_stores: FreshStores, *, rounds: int) -> list[Line]:
    """Time claims of single jobs, of keys and without, beside jobs of a closed key that were submitted before."""
    seconds: dict[tuple[bool, bool], list[float]] = {}
    engines = {}
    lines = []
    for is_closed in (False, True):
        url = await fresh_stores.fresh()
        engines[is_closed] = engine_on(url)
    async with engines[False] as without, engines[True] as beside:
        await beside.limits.close(key_limit(_CLOSED), None, "bench", BY)
        for _ in range(CLOSED_JOBS // 1000):
            jobs = [NewJob(beside.fresh_id(), TYPE, PAYLOAD, concurrency_key=_CLOSED) for _ in range(1000)]
            await beside.submit(jobs)
        for _ in range(2 * rounds):
            for is_closed, engine in ((False, without), (True, beside)):
                for has_key in (False, True):
                    seconds.setdefault((is_closed, has_key), []).extend(await _timed_claims(engine, has_key=has_key))
    for has_key in (False, True):
        plain, past = (percentile(seconds[is_closed, has_key], 0.99) for is_closed in (False, True))
        middle, past_middle = (percentile(seconds[is_closed, has_key], 0.5) for is_closed in (False, True))
        what = f"claim of a job {'of another key' if has_key else 'without a key'} past {CLOSED_JOBS} of a closed one"
        figure = f"p50 {past_middle * 1e3:.2f} ms, p99 {past * 1e3:.2f} ms"
        beside_it = f"alone p50 {middle * 1e3:.2f} ms, p99 {plain * 1e3:.2f} ms"
        lines.append(Line(what, figure, beside_it, past / plain, at_most(1.2)))
    return lines


async def _timed_claims(engine: Engine, *, has_key: bool) -> list[float]:
    """Submit jobs, claim each by itself, and return how long the claims took."""
    jobs = [
        NewJob(engine.fresh_id(), TYPE, PAYLOAD, concurrency_key=f"key-{number}" if has_key else None)
        for number in range(CLAIMS)
    ]
    await engine.submit(jobs)
    found, left = [], CLAIMS
    while left:
        begun = time.perf_counter()
        claimed = await engine.claim(
            Claim(
                worker=WorkerId("bench", "bench"),
                limit=1,
                queues=("default",),
                types=(TYPE,),
                lease=timedelta(seconds=15),
            )
        )
        found.append(time.perf_counter() - begun)
        assert claimed, "nothing could be claimed"
        await engine.settle([AttemptReport(job.id, job.fence, Succeeded()) for job in claimed])
        left -= len(claimed)
    return found


async def _set_limit(engine: Engine, kind: str) -> None:
    if kind == "queue":
        await engine.limits.put(Limit(queue_limit("default"), SLOTS), BY)
    elif kind == "keys":
        await engine.limits.put(Limit(task_limit(TYPE), per_key_max_running=2), BY)


async def _submit_keyed(engine: Engine, number: int, job_type: str) -> None:
    for start in range(0, number, KEYS):
        keys = [f"{job_type}:{one}" for one in range(min(KEYS, number - start))]
        await engine.submit([NewJob(engine.fresh_id(), job_type, PAYLOAD, concurrency_key=key) for key in keys])

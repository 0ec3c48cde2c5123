"""W8: workers over HTTP, compared with the same workers on the store itself."""

from __future__ import annotations

from bench.drain import drain, engine_on, start_api, start_worker, system_for
from bench.fresh_stores import FreshStores
from bench.measure import Sample
from bench.workloads.results import Line, at_least, rate

SLOTS = "100"


async def http_drain(fresh_stores: FreshStores, *, jobs: int, rounds: int, workers: int = 1) -> list[Line]:
    """Drain the same line both ways, in turn."""
    names = [f"w{number}" for number in range(workers)]
    rates: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for over_http, found in rates.items():
            url = await fresh_stores.fresh()
            async with system_for(url) as system, engine_on(url) as engine:
                if over_http:
                    await start_api(system)
                for name in names:
                    start_worker(system, name, "--concurrency", SLOTS, over_http=over_http)
                found.append(await drain(engine, jobs, "suspends", names))
    inside, outside = Sample(tuple(rates[False])), Sample(tuple(rates[True]))
    return [
        Line("drain on the store", rate(inside)),
        Line(
            "drain over HTTP only",
            rate(outside),
            "the drain on the store",
            outside.median / inside.median,
            at_least(0.5),
        ),
    ]

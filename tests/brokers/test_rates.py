"""Rates counted in Redis: the same as those that the store counts, also while Redis dies, forgets and hangs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio

from brokers.redis_environment import until
from builders import BASE, HOUR, ManualClock, at, claim, means, new_job, new_jobs
from conformance.stores.adapters import BY_NAME, Adapter, ReadClock
from rota.brokers.redis_streams import RedisStreamsBroker
from rota.core.decision import decide
from rota.core.lease import WorkerId
from rota.core.limit import Limit, Rate, parse_rates
from rota.core.outcome import Succeeded
from rota.core.time import to_micros
from rota.ports.broker import Broker
from rota.ports.rates import Arrivals, CountedRate
from rota.ports.store import Store
from rota.runtime import Link, connect
from rota.runtime.link import BrokerChoice
from servers.valkey import ValkeyServer, require_binary, shared_valkey

SERVERS = [adapter for adapter in BY_NAME.values() if adapter.name in {"postgres", "mariadb"}]
NAME = "task:mail"


@dataclass
class Counting:
    """Stores on one database, as of several processes, whose fast rates Redis counts."""

    stores: list[Store]
    server: ValkeyServer | None
    brokers: list[RedisStreamsBroker] = field(default_factory=list)
    stream: str = ""

    @property
    def store(self) -> Store:
        return self.stores[0]

    async def limit(self, text: str, name: str = NAME, jobs: int = 400) -> None:
        await self.store.put_limits([Limit(name, rate_limit=text)], now=BASE)
        await self.store.insert(new_jobs(jobs), now=BASE)

    async def start(self, seconds: float, store: int = 0, limit: int = 100) -> int:
        """Claim, and return how many jobs started."""
        return len(await self.stores[store].claim(claim(WorkerId(f"w{store}", f"b{store}"), limit), now=at(seconds)))

    async def until_up(self) -> None:
        for broker in self.brokers:
            await until(lambda broker=broker: _answered(broker), bool)  # type: ignore[misc]


async def _answered(broker: Broker) -> bool:
    return broker.is_up


@asynccontextmanager
async def counting(
    adapter: Adapter, folder: Path, server: ValkeyServer | None, count: int = 1, clock: ReadClock | None = None
) -> AsyncIterator[Counting]:
    async for place in adapter.place(folder):
        stores = [await adapter.open(place, clock or ManualClock()) for _ in range(count)]
        scene = Counting(stores, server, stream=f"rates-{Path(place).name[-24:]}-{id(stores)}")
        try:
            if server is not None:
                for store in stores:
                    broker = await RedisStreamsBroker.open(store, server.url, stream=scene.stream)
                    store.count_rates_with(broker.rate_counter)
                    scene.brokers.append(broker)
                await scene.until_up()
            yield scene
        finally:
            for broker in scene.brokers:
                await broker.close()
            for store in stores:
                await store.close()


@pytest.fixture(params=SERVERS, ids=lambda adapter: adapter.name)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    chosen: Adapter = request.param
    return chosen


@pytest_asyncio.fixture(params=["counted in the store", "counted in Redis"])
async def scene(request: pytest.FixtureRequest, adapter: Adapter, tmp_path: Path) -> AsyncIterator[Counting]:
    server = shared_valkey() if request.param == "counted in Redis" else None
    async with counting(adapter, tmp_path, server) as found:
        yield found


@pytest_asyncio.fixture
async def own(adapter: Adapter, tmp_path: Path) -> AsyncIterator[Counting]:
    """Two processes, and a private server that tests may break."""
    server = ValkeyServer(require_binary())
    try:
        async with counting(adapter, tmp_path, server, 2) as found:
            yield found
    finally:
        server.remove()


# The same semantics


async def test_a_burst_starts_and_then_one_for_each_interval(scene: Counting) -> None:
    await scene.limit("200/s burst 20")
    assert [await scene.start(seconds) for seconds in (0, 0, 0.005, 0.05, 9)] == [20, 0, 1, 9, 20]


async def test_the_slower_of_two_rates_counts(scene: Counting) -> None:
    await scene.limit("500/s burst 5, 100/s burst 7")
    assert [await scene.start(seconds) for seconds in (0, 0.01, 0.02, 0.03, 0.04)] == [5, 3, 1, 1, 1]


async def test_of_two_limits_the_slower_counts_and_the_other_loses_nothing(scene: Counting) -> None:
    await scene.store.put_limits([Limit("queue:default", rate_limit="100/s burst 3")], now=BASE)
    await scene.limit("1000/s burst 50")
    await scene.store.insert(new_jobs(50, "report", queue="side"), now=BASE)
    assert [await scene.start(seconds) for seconds in (0, 0, 0.01)] == [3, 0, 1]
    # Slow and fast rates may concern one job.
    await scene.store.put_limits([Limit("queue:default", rate_limit="1/m")], now=at(3))
    assert [await scene.start(seconds) for seconds in (3, 64, 65)] == [1, 1, 0]


async def test_each_key_has_its_own_rate(scene: Counting) -> None:
    await scene.store.put_limits([Limit(NAME, per_key_rate_limit="100/s burst 2")], now=BASE)
    await scene.store.insert([new_job(concurrency_key=f"mail:{number % 3}") for number in range(30)], now=BASE)
    assert [await scene.start(seconds) for seconds in (0, 0, 0.01, 5)] == [6, 0, 3, 6]


async def test_a_rate_that_is_raised_or_set_once_more_holds_at_once(scene: Counting) -> None:
    await scene.limit("100/s burst 10")
    assert [await scene.start(seconds) for seconds in (0, 0)] == [10, 0]
    await scene.store.put_limits([Limit(NAME, rate_limit="100/s burst 10")], now=at(0))
    assert await scene.start(0) == 0
    await scene.store.put_limits([Limit(NAME, rate_limit="1000/s burst 1")], now=at(0.001))
    assert await scene.start(0.0025) == 1


async def test_a_rate_goes_on_after_the_clock_was_set_back(scene: Counting) -> None:
    await scene.limit("100/s burst 10")
    assert await scene.start(HOUR.total_seconds()) == 10
    # As if all had just started.
    assert await scene.start(0) == 0
    assert 0 < await scene.start(0.1) <= 10
    assert await scene.start(9) == 10


@pytest.mark.parametrize("seed", range(3))
async def test_claims_at_random_times_never_exceed_a_rate(scene: Counting, seed: int) -> None:
    (rate,) = parse_rates("250/s burst 12")
    chance, seconds, starts = Random(seed), 0.0, []
    await scene.limit("250/s burst 12")
    for _ in range(40):
        seconds += chance.choice((0, 0.001, 0.004, 0.02, 0.3))
        starts += [to_micros(at(seconds))] * await scene.start(seconds, limit=chance.choice((1, 3, 20)))
    assert _most_over(starts, rate) <= 0
    assert len(starts) > 40


def _most_over(starts: Sequence[int], rate: Rate) -> float:
    return max(
        last - first + 1 - rate.burst - (starts[last] - starts[first]) / rate.interval
        for first in range(len(starts))
        for last in range(first, len(starts))
    )


async def test_the_script_takes_from_all_limits_or_from_none(own: Counting) -> None:
    """Locks of the store make claims serial; one that lost its locks while it stood still must not exceed a rate."""
    counter, now = own.brokers[0].rate_counter, to_micros(BASE)
    fast, slow = (
        CountedRate("a", parse_rates("1000/s"), (0, 0), 6),
        CountedRate("b", parse_rates("100/s burst 10"), (0, 0), 6),
    )
    first = await counter.take([fast, slow], now)
    assert first is not None
    fast, slow = replace(fast, ceilings=first[0]), replace(slow, ceilings=first[1])
    seen = await counter.look([fast, slow], now)
    assert await counter.take([fast, slow], now) is None
    assert await counter.look([fast, slow], now) == seen == [(now + 6_000, 0), (now + 60_000, 0)]
    # Below the ceilings, these stay.
    assert await counter.take([replace(fast, starts=1), replace(slow, starts=4)], now) == first


# What Redis counts is not written to the store


async def _ceiling(scene: Counting) -> datetime | None:
    # As if the rate were slow: it is counted in the store only.
    return (await scene.store.limit_usage(Limit(NAME, rate_limit="1/1000s"), now=BASE)).opens_at


async def test_the_store_is_written_once_a_second_and_slow_rates_always(own: Counting) -> None:
    await own.limit("1000/s burst 1")
    assert await own.start(0) == 1
    first = await _ceiling(own)
    for number in range(1, 20):
        assert await own.start(number / 10) <= 1
        if number < 10:
            assert await _ceiling(own) == first
    assert await _ceiling(own) != first


async def test_when_the_next_job_may_start_is_what_redis_says(scene: Counting) -> None:
    await scene.limit("100/s burst 1")
    assert await scene.start(0) == 1
    usage = await scene.store.limit_usage(Limit(NAME, rate_limit="100/s burst 1"), now=BASE)
    assert usage.opens_at == at(0.01)


# Redis comes and goes


async def test_without_redis_the_store_decides_and_nothing_is_forgotten(own: Counting) -> None:
    (rate,) = parse_rates("200/s burst 20")
    await own.limit("200/s burst 20")
    assert own.server is not None
    starts: list[int] = []
    for step in range(60):
        if step == 15:
            own.server.kill()
        if step == 40:
            own.server.start()
            await own.until_up()
        seconds = step * 0.1
        starts += [to_micros(at(seconds))] * await own.start(seconds, step % 2)
    assert _most_over(starts, rate) <= 0
    # At most a second is lost with each change.
    assert len(starts) >= 200 * 60 * 0.1 * 0.1 + 20


async def test_what_redis_has_forgotten_or_brought_back_is_not_believed(own: Counting) -> None:
    await own.limit("100/s burst 10")
    assert own.server is not None
    key = f"{own.stream}:{{rates}}:task%3Amail"
    assert await own.start(0, limit=2) == 2
    old = own.server.ask("GET", key)
    assert await own.start(0) == 8
    own.server.ask("DEL", key)
    assert await own.start(0, 1) == 0
    # A replica that became the primary without the last writes: another server.
    run, *rest = old.split()
    own.server.ask("SET", key, " ".join(["0" * len(run), *rest]))
    assert await own.start(0) == 0
    # A claim has counted without Redis since.
    own.server.ask("SET", key, old)
    own.stores[1].count_rates_with(_Nothing())
    assert await own.start(3, 1) == 10
    assert await own.start(3, 0) == 0


class _Nothing:
    """A counter that is away."""

    async def look(self, counted: Sequence[CountedRate], now: int) -> Sequence[Arrivals] | None:
        del counted, now
        return None

    async def take(self, counted: Sequence[CountedRate], now: int) -> Sequence[Arrivals] | None:
        del counted, now
        return None


async def test_a_claim_whose_answer_is_lost_starts_nothing_and_the_next_one_does(own: Counting) -> None:
    await own.limit("100/s burst 10")
    broker = own.brokers[0]

    class Lost:
        """Takes, and loses the answer."""

        look = staticmethod(broker.rate_counter.look)

        @staticmethod
        async def take(counted: Sequence[CountedRate], now: int) -> Sequence[Arrivals] | None:
            await broker.rate_counter.take(counted, now)
            return None

    own.store.count_rates_with(Lost())
    assert await own.start(0) == 0
    assert own.store.limit_pause(claim(WorkerId("w0", "b0"))) == timedelta(milliseconds=5)
    own.store.count_rates_with(broker.rate_counter)
    # The store never got the new ceiling, so what Redis holds is not valid.
    assert await own.start(0) == 10


async def test_a_server_that_hangs_stops_claims_for_a_moment_only(own: Counting) -> None:
    await own.limit("100/s burst 10")
    assert own.server is not None
    assert await own.start(0, limit=1) == 1
    own.server.freeze()
    try:
        async with asyncio.timeout(30):
            assert await own.start(9) == 10
    finally:
        own.server.thaw()


async def test_rates_hold_over_several_processes_on_the_stores_clock(adapter: Adapter, tmp_path: Path) -> None:
    (rate,) = parse_rates("200/s burst 10")
    clock = lambda: datetime.now(UTC)  # noqa: E731 - a clock
    async with counting(adapter, tmp_path, shared_valkey(), 3, clock) as scene:
        await scene.store.put_limits([Limit(NAME, rate_limit="200/s burst 10")])
        await scene.store.insert(new_jobs(150))
        starts: list[int] = []

        async def work(store: Store, name: str) -> None:
            while len(starts) < 150:
                for job in await store.claim(claim(WorkerId(name, name), 7)):
                    assert job.started_at is not None
                    starts.append(to_micros(job.started_at))
                    await store.settle([decide(job, Succeeded(), means(datetime.now(UTC)))])
                await asyncio.sleep(0.002)

        await asyncio.wait_for(asyncio.gather(*(work(one, f"w{n}") for n, one in enumerate(scene.stores))), 60)
        assert _most_over(sorted(starts), rate) <= 0


async def test_a_process_with_redis_streams_counts_fast_rates_there(adapter: Adapter, tmp_path: Path) -> None:
    server = shared_valkey()
    async for place in adapter.place(tmp_path):
        broker = BrokerChoice(server.url, f"rates-{id(tmp_path)}", "workers")
        link = await connect(place, broker=broker)
        try:
            await _count_in_redis(link, server, broker.stream)
        finally:
            await link.close()


async def _count_in_redis(link: Link, server: ValkeyServer, stream: str) -> None:
    engine = link.engine
    assert engine is not None
    await until(lambda: _answered(engine.broker), bool)
    await engine.store.put_limits([Limit(NAME, rate_limit="500/s")])
    await engine.store.insert(new_jobs(3))
    assert len(await engine.store.claim(claim())) == 3
    assert server.ask("GET", f"{stream}:{{rates}}:task%3Amail")

"""kill -9 of the server: what a store acknowledged survives the kill, and processes continue without a restart.

Clients submit jobs one by one, workers claim, renew and settle them, upkeep promotes and reaps, over stores of their
own, while the server is killed at moments drawn from the seed and started again after a pause. A call that fails with
`StoreUnavailable` is repeated as its caller in the product would: a submission with its key, a settlement as it is.
At the end every acknowledged submission must be there and have ended once, every acknowledged settlement must be what
the job shows, and the books must balance.

``python -m crash.server_kill --kills 10`` does it on MariaDB, with ``--store postgres`` on PostgreSQL.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final, Protocol, TypeVar

from rota.core.decision import DecisionInputs, decide
from rota.core.errors import StoreUnavailable
from rota.core.ids import JobId, compose
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, WorkerId
from rota.core.lifecycle import FINISHED, State
from rota.core.outcome import Lost, Succeeded
from rota.core.submission import IdempotencyKey, NewJob
from rota.ports.store import JobQuery, Receipt, Store
from rota.stores.mysql import MysqlStore
from rota.stores.postgres import PostgresStore
from servers.mariadb import MariadbServer, require_binary
from servers.postgres import PostgresServer, require_binaries

T = TypeVar("T")

CLIENTS: Final = 8
WORKERS: Final = 4
LEASE: Final = timedelta(seconds=2)
#: How soon after its return the server must be used as before.
HEALING_SECONDS: Final = 10.0
LONGEST_REPEAT_SECONDS: Final = 60.0


class Server(Protocol):
    """What can be killed and started again."""

    def kill(self) -> None:
        """End the server at once."""
        ...

    def start(self) -> None:
        """Start it, and wait until it answers."""
        ...


OpenStore = Callable[[], Awaitable[Store]]


@dataclass(slots=True)
class Report:
    """What was done and what was found."""

    kills: int = 0
    submitted: set[JobId] = field(default_factory=set)
    settled: dict[JobId, int] = field(default_factory=dict)
    unavailable: int = 0
    #: When each settlement was acknowledged, and when the server was back, by the monotonic clock.
    moments: list[float] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def rate(self, start: float, seconds: float) -> float:
        """Settlements per second in a span."""
        return sum(start <= moment < start + seconds for moment in self.moments) / seconds

    def healing_seconds(self, before: float) -> list[float]:
        """Return how long after each return nine tenths of the former rate were reached, second by second."""
        found = []
        for back in self.returns:
            waits = (wait / 4 for wait in range(int(HEALING_SECONDS * 4)))
            found.append(
                next((wait + 1 for wait in waits if self.rate(back + wait, 1.0) >= 0.9 * before), float("inf"))
            )
        return found

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {len(self.submitted)} submitted, {len(self.settled)} settled, "
            f"{self.unavailable} calls unavailable, {len(self.violations)} violations"
        )


class Run:
    """One run: the load, the killer and the verification."""

    def __init__(self, server: Server, seed: int) -> None:
        self._server = server
        self._rng = random.Random(seed)
        self._numbers = count(1)
        self._is_over = False
        self._is_submitting = True
        self.report = Report()

    async def drive(self, open_store: OpenStore, kills: int, steady_seconds: float) -> Report:
        """Put load on the server, kill it so often, and verify what is left."""
        first, second = await open_store(), await open_store()
        load = [asyncio.ensure_future(self._submit(first)) for _ in range(CLIENTS)]
        work = [
            asyncio.ensure_future(self._work(store, WorkerId(f"worker-{number}", "boot")))
            for number, store in zip(range(WORKERS), (first, second) * WORKERS, strict=False)
        ]
        work.append(asyncio.ensure_future(self._keep_up(second)))
        everything = asyncio.gather(*load, *work)
        try:
            await _or_failure(asyncio.sleep(steady_seconds), everything)
            for _ in range(kills):
                await _or_failure(self._kill(steady_seconds), everything)
            self._is_submitting = False
            await asyncio.gather(*load)
            await _or_failure(self._drained(second), everything)
            self._is_over = True
            await everything
            await self._judge(second)
        finally:
            self._is_over, self._is_submitting = True, False
            everything.cancel()
            await asyncio.gather(everything, return_exceptions=True)
            for store in (first, second):
                await store.close()
        return self.report

    async def _kill(self, steady_seconds: float) -> None:
        await asyncio.sleep(self._rng.uniform(0.05, 0.5))
        await asyncio.to_thread(self._server.kill)
        self.report.kills += 1
        await asyncio.sleep(self._rng.uniform(0.05, 0.5))
        await asyncio.to_thread(self._server.start)
        self.report.returns.append(time.monotonic())
        await asyncio.sleep(steady_seconds)

    async def _submit(self, store: Store) -> None:
        while self._is_submitting:
            number = next(self._numbers)
            key = IdempotencyKey(f"submission-{number}", b"request")
            # As the engine makes them: by the clock, so that a repetition may come under another id.
            job = NewJob(JobId(compose(int(time.time() * 1000), number)), "kill", idempotency=key)
            (answer,) = await self._until_available(lambda job=job: store.insert([job]))  # type: ignore[misc]
            if answer.receipt not in {Receipt.CREATED, Receipt.REPLAYED}:
                self.report.violations.append(f"submission {number} was answered with {answer.receipt}")
            self.report.submitted.add(answer.job_id)

    async def _work(self, store: Store, worker: WorkerId) -> None:
        while not self._is_over:
            name = f"{worker.name}-{next(self._numbers)}"
            wanted = Claim(worker, 10, lease=LEASE, claim_id=name)
            held = await self._until_available(lambda wanted=wanted: store.claim(wanted))  # type: ignore[misc]
            if not held:
                await asyncio.sleep(0.005)
                continue
            renewals = [Renewal(job.id, job.fence, LEASE) for job in held]
            await self._until_available(lambda renewals=renewals: store.renew(renewals))  # type: ignore[misc]
            await self._settle(store, held)

    async def _settle(self, store: Store, held: Sequence[Job]) -> None:
        settlements = [decide(job, Succeeded(str(job.fence)), DecisionInputs(datetime.now(UTC))) for job in held]
        applied = await self._until_available(lambda: store.settle(settlements))
        now = time.monotonic()
        for job in held:
            # Not applied: settled by a call whose reply was lost, or the lease ran out while the server was away.
            if job.id in applied:
                if job.id in self.report.settled:
                    self.report.violations.append(f"job {job.id} was settled twice")
                self.report.settled[job.id] = job.fence
                self.report.moments.append(now)

    async def _keep_up(self, store: Store) -> None:
        while not self._is_over:
            lost = await self._until_available(lambda: store.lost(100))
            means = DecisionInputs(datetime.now(UTC))
            settlements = [decide(job, Lost(), means) for job in lost]
            if settlements:
                await self._until_available(lambda settlements=settlements: store.settle(settlements))  # type: ignore[misc]
            await self._until_available(lambda: store.promote(100))
            await asyncio.sleep(0.05)

    async def _drained(self, store: Store) -> None:
        """Wait until every job has ended."""
        while True:
            census = await self._until_available(store.census)
            if census.total() == census.total(*FINISHED):
                return
            await asyncio.sleep(0.05)

    async def _judge(self, store: Store) -> None:
        jobs = {job.id: job for job in await store.find(JobQuery(limit=10_000_000))}
        found = self.report.violations
        found += [f"job {job_id} was acknowledged and is lost" for job_id in self.report.submitted - jobs.keys()]
        keys = Counter(job.idempotency_key for job in jobs.values())
        found += [f"{key} made {number} jobs" for key, number in keys.items() if number > 1]
        for job_id, fence in self.report.settled.items():
            job = jobs.get(job_id)
            if job is None or (job.state, job.fence, job.result) != (State.COMPLETED, fence, str(fence)):
                found.append(f"job {job_id} was settled under fence {fence} and shows {job}")
        found += [f"job {job.id} shows the result of another fence" for job in jobs.values() if _is_stale(job)]
        found += await store.check()

    async def _until_available(self, call: Callable[[], Awaitable[T]]) -> T:
        give_up_at = time.monotonic() + LONGEST_REPEAT_SECONDS
        while True:
            try:
                return await call()
            except StoreUnavailable:
                self.report.unavailable += 1
                if time.monotonic() > give_up_at:
                    raise
                await asyncio.sleep(0.05)


def _is_stale(job: Job) -> bool:
    return job.state is State.COMPLETED and job.result != str(job.fence)


async def _or_failure(act: Awaitable[T], load: asyncio.Future[list[None]]) -> T:
    """Do something, unless the load fails meanwhile."""
    acting = asyncio.ensure_future(act)
    watched: list[asyncio.Future[Any]] = [acting, load]
    await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
    if load.done() and not acting.done():
        acting.cancel()
        load.result()
    return await acting


def mariadb() -> tuple[MariadbServer, OpenStore]:
    server = MariadbServer(require_binary())
    server.execute("CREATE DATABASE rota")
    return server, lambda: MysqlStore.open(server.url("rota"))


def postgres() -> tuple[PostgresServer, OpenStore]:
    server = PostgresServer(require_binaries())
    return server, lambda: PostgresStore.open(server.dsn())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steady", type=float, default=5.0, help="seconds of quiet between kills")
    parser.add_argument("--store", choices=("mariadb", "postgres"), default="mariadb")
    options = parser.parse_args()
    server, open_store = postgres() if options.store == "postgres" else mariadb()
    begun = time.monotonic()
    try:
        run = Run(server, options.seed)
        report = asyncio.run(run.drive(open_store, options.kills, options.steady))
    finally:
        server.remove()
    before = report.rate(begun, options.steady + (report.moments[0] - begun)) if report.moments else 0.0
    healing = report.healing_seconds(before)
    sys.stdout.write(f"{report}\nbefore {before:.0f}/s; nine tenths of it again after {healing} s\n")
    sys.stdout.writelines(f"{violation}\n" for violation in report.violations[:20])
    sys.exit(bool(report.violations))


if __name__ == "__main__":
    main()

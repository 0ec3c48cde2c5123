"""The hot paths, run under the counters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch
from zoneinfo import ZoneInfo

from builders import ManualClock
from guard.counting import Act, Counter, Counts, Instructions, MariadbQuestions, PostgresQueries, SqliteSteps
from rota import Rota
from rota.api import create_app
from rota.brokers.in_store import InStoreBroker
from rota.core.cron import parse
from rota.core.job import Job
from rota.core.lease import Claim, WorkerId
from rota.core.outcome import Succeeded
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.client import AttemptReport
from rota.ports.store import Store
from rota.sdk.loop_links import SUBMISSIONS_BEFORE_LINK
from rota.sdk.task import AsyncTask
from rota.stores.mysql import MysqlStore
from rota.stores.postgres import PostgresStore
from rota.stores.sqlite import SqliteStore
from rota.telemetry.events import Event, JobsSettled
from rota.worker import Handlers, Worker, WorkerOptions, handler_of
from servers.databases import empty_database
from servers.mariadb import shared_server as shared_mariadb
from servers.postgres import migrated_database
from servers.postgres import shared_server as shared_postgres

#: What was counted, by path and by what: "postgres: submit of 500: statements".
Figures = dict[str, int]
AnyTask = AsyncTask[..., Any]
_ADA: Final = WorkerId("ada", "boot")
_PAYLOAD: Final = '{"to":"user@example.com","subject":"welcome"}'
_LEASE: Final = timedelta(minutes=10)
ROUNDS: Final = 3
STORES: Final = ("sqlite", "postgres", "mariadb")


class Walk:
    """The verbs of a job's life on an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def _jobs(self, number: int) -> list[NewJob]:
        return [NewJob(id=self.engine.fresh_id(), type="mail", payload=_PAYLOAD) for _ in range(number)]

    async def figures(self, counter: Counter) -> dict[str, Counts]:
        """Walk once without counting, which prepares statements and fills caches, and then some times more.

        The least of each is given: what goes by the clock, a look at the server's time for one, only ever adds.
        """
        await self._once(_Uncounted())
        rounds = [await self._once(counter) for _ in range(ROUNDS)]
        return {path: _least([one[path] for one in rounds]) for path in rounds[0]}

    async def _once(self, counter: Counter) -> dict[str, Counts]:
        found = {
            "submit of 1, ten times": await counter.counted(self._submit_ten),
            "submit of 500": await counter.counted(lambda: self.engine.submit(self._jobs(500))),
        }
        taken: list[Job] = []

        async def take() -> None:
            taken.extend(await self._claim(50))

        found["claim of 50"] = await counter.counted(take)
        found["settle of 50"] = await counter.counted(lambda: self._settle(taken))
        while rest := await self._claim(500):
            await self._settle(rest)
        return found

    async def _submit_ten(self) -> None:
        for _ in range(10):
            await self.engine.submit(self._jobs(1))

    async def _claim(self, limit: int) -> Sequence[Job]:
        return await self.engine.claim(Claim(worker=_ADA, limit=limit, types=("mail",), lease=_LEASE))

    async def _settle(self, jobs: Sequence[Job]) -> None:
        await self.engine.settle([AttemptReport(job.id, job.fence, Succeeded("null")) for job in jobs])


class _Uncounted:
    async def counted(self, act: Act) -> Counts:
        await act()
        return {}


async def store_figures(name: str) -> Figures:
    """Count the statements of a store. The same for every version of Python."""
    match name:
        case "sqlite":
            steps = SqliteSteps()
            async with _engine_on(
                await SqliteStore.open(":memory:", clock=ManualClock(), connect=steps.connect)
            ) as one:
                return _named(name, await Walk(one).figures(steps))
        case "postgres":
            # The lookout for the dead goes by the clock, and says nothing of what a path costs.
            with patch("rota.stores.postgres.low_water.MEASURE_SECONDS", 3600.0):
                async with migrated_database(shared_postgres()) as dsn:
                    store = await PostgresStore.open(dsn)
                    async with _engine_on(store) as one:
                        return _named(name, await Walk(one).figures(PostgresQueries(store)))
        case _:
            async with empty_database() as url, _engine_on(await MysqlStore.open(url)) as one:
                return _named(name, await Walk(one).figures(MariadbQuestions(shared_mariadb().port)))


async def python_figures(name: str) -> Figures:
    """Count what Python does on a hot path: over a store, over HTTP, in a worker, or for a cron expression."""
    counter = Instructions()
    match name:
        case "sqlite":
            async with _in_memory() as engine:
                return _named(name, await Walk(engine).figures(counter))
        case "postgres":
            async with migrated_database(shared_postgres()) as dsn, _engine_on(await PostgresStore.open(dsn)) as engine:
                return _named(name, await Walk(engine).figures(counter))
        case "mariadb":
            async with empty_database() as url, _engine_on(await MysqlStore.open(url)) as engine:
                return _named(name, await Walk(engine).figures(counter))
        case "api in Python":
            return _named(name, await _through_tasks(counter))
        case "http":
            return _named(name, {"submit of 1, ten times": await _over_http(counter)})
        case "worker":
            return _named(name, {"life of 100 jobs": await _in_a_worker(counter)})
        case _:
            return _named(name, {"next, fifty times each": await _by_cron(counter)})


PYTHON_PATHS: Final = (*STORES, "api in Python", "http", "worker", "cron")


async def _through_tasks(counter: Counter) -> dict[str, Counts]:
    """Submit as a program does that defines tasks: many callers on a loop, in bulk, and one without a loop."""
    with TemporaryDirectory() as folder:
        alone = await _by_tasks(f"{folder}/guard.db", counter, {"submit of 1, ten times": _submit_ten_times})
    async with migrated_database(shared_postgres()) as dsn:
        acts = {"submit of 1 by 256 callers": _submit_by_callers, "submit of 500": _submit_five_hundred}
        together = await _by_tasks(dsn, counter, acts)
    return {**alone, **together}


#: Where OpenTelemetry is loaded, each call asks it for a span; other tests may have loaded it here.
_WITHOUT_SPANS: Final = patch("rota.telemetry.tracing.sys", SimpleNamespace(modules={}))


@_WITHOUT_SPANS
async def _by_tasks(
    url: str, counter: Counter, acts: Mapping[str, Callable[[AnyTask], Awaitable[object]]]
) -> dict[str, Counts]:
    app = Rota(url)

    @app.task
    async def mail(to: str, subject: str) -> None:
        del to, subject

    try:
        # So often that the loop has a link of its own, where it may have one.
        for _ in range(SUBMISSIONS_BEFORE_LINK):
            await mail.asubmit("user@example.com", "welcome")
        await app.portal.acall(app.control())
        while app.gateway._loop_links is not None and app.gateway._loop_links.batcher() is None:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.001)
        found = {}
        for path, act in acts.items():
            await act(mail)
            found[path] = _least([await counter.counted(partial(act, mail)) for _ in range(ROUNDS)])
        return found
    finally:
        await asyncio.to_thread(app.close)


async def _submit_ten_times(mail: AnyTask) -> None:
    for _ in range(10):
        mail.submit("user@example.com", "welcome")


async def _submit_by_callers(mail: AnyTask) -> None:
    await asyncio.gather(*(mail.asubmit("user@example.com", "welcome") for _ in range(256)))


async def _submit_five_hundred(mail: AnyTask) -> None:
    await mail._app.asubmit_many([mail.call("user@example.com", "welcome") for _ in range(500)])


async def _over_http(counter: Counter) -> Counts:
    """Submit through the application itself, without a socket between."""
    async with _in_memory() as engine:
        api = create_app(engine)
        body = b'{"type":"mail","payload":' + _PAYLOAD.encode() + b"}"

        async def submit_ten() -> None:
            for _ in range(10):
                assert await _answered(api, body) == 201

        await submit_ten()
        found = await counter.counted(submit_ten)
        await api.aclose()
    return found


async def _answered(api: Callable[..., Any], body: bytes) -> int:
    sent: list[dict[str, Any]] = []
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/jobs",
        "raw_path": b"/v1/jobs",
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await api(scope, receive, send)
    status: int = sent[0]["status"]
    return status


async def _in_a_worker(counter: Counter) -> Counts:
    """Submit jobs to a worker that waits for them, and see all of them settled; all on one loop."""

    async def mail(to: str, subject: str) -> None:
        del to, subject

    async with _in_memory() as engine:
        # Beats far apart: none may come while we count.
        options = WorkerOptions(name="ada", boot="boot", concurrency=50, lease=_LEASE, beat=_LEASE / 2, own_loop=False)
        worker = Worker(engine, Handlers([handler_of(mail, type="mail")]), options, rng=lambda: 0.5)
        running = asyncio.create_task(worker.run())

        async def live() -> None:
            settled = _Settled(engine, 100)
            await engine.submit(
                [NewJob(id=engine.fresh_id(), type="mail", payload=_PAYLOAD) for _ in range(100)],
            )
            await settled.all.wait()

        await live()
        found = await counter.counted(live)
        worker.stop()
        await running
    return found


class _Settled:
    def __init__(self, engine: Engine, number: int) -> None:
        self.all = asyncio.Event()
        self._left = number
        self._leave = engine.telemetry.listen(self._heard)

    def _heard(self, event: Event) -> None:
        if isinstance(event, JobsSettled):
            self._left -= len(event.jobs)
            if self._left <= 0:
                self._leave()
                self.all.set()


#: Often, seldom, by weekday, over the end of a month, in a zone with clock changes.
_EXPRESSIONS: Final = (
    ("*/5 * * * *", "UTC"),
    ("0 3 29 2 *", "UTC"),
    ("30 2 * * 1-5", "Europe/Berlin"),
    ("@every 90s", "UTC"),
)


async def _by_cron(counter: Counter) -> Counts:
    rules = [(parse(expression), ZoneInfo(zone)) for expression, zone in _EXPRESSIONS]

    async def count_on() -> None:
        for rule, zone in rules:
            moment = datetime(2026, 3, 1, tzinfo=zone)
            for _ in range(50):
                moment = rule.next(moment)

    await count_on()
    return await counter.counted(count_on)


@asynccontextmanager
async def _in_memory() -> AsyncIterator[Engine]:
    async with _engine_on(await SqliteStore.open(":memory:", clock=ManualClock())) as engine:
        yield engine


@asynccontextmanager
async def _engine_on(store: Store) -> AsyncIterator[Engine]:
    broker = InStoreBroker(store)
    try:
        yield Engine(store, broker, rng=lambda: 0.5)
    finally:
        await broker.close()
        await store.close()


def _least(found: Sequence[Counts]) -> Counts:
    return {what: min(one[what] for one in found) for what in found[0]}


def _named(name: str, found: dict[str, Counts]) -> Figures:
    return {f"{name}: {path}: {what}": count for path, counts in found.items() for what, count in counts.items()}

"""Statements of an idle process: few, and each of them a transaction by itself.

How often each is asked is counted in virtual time, over a minute, for each kind of process; that each of them is one
statement is counted on the servers themselves. What servers are asked beside that, to hear of work, is added.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import cast

import pytest

from builders import BASE, claim
from engine.environment import FaultyStore
from guard.counting import MariadbQuestions, PostgresQueries
from rota.brokers.in_store import InStoreBroker
from rota.coordination.database import DatabaseCoordinator
from rota.core.cluster import LEAD, TERM, Member, MemberHeartbeat, Role
from rota.engine import Engine
from rota.ports.store import Retention, Store
from rota.runtime.membership import Membership
from rota.scheduler import Scheduler
from rota.scheduler.operations import LOOK_EVERY
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.notify import CHECK_SECONDS, CHECKS
from rota.stores.postgres import PostgresStore
from rota.stores.postgres.notify import PROBE_SECONDS
from rota.stores.sqlite import SqliteStore
from rota.worker import Handlers, Worker, WorkerOptions, handler_of
from servers.databases import empty_database
from servers.mariadb import shared_server as shared_mariadb
from servers.postgres import migrated_database
from servers.postgres import shared_server as shared_postgres
from simulation.loop import run

MINUTE = 60.0
SETTLING_SECONDS = 20.0
#: Statements in a minute to wait for work: PostgreSQL for an echo, MariaDB to wait and to sit lower.
HEARING = max(MINUTE / PROBE_SECONDS, 2 * MINUTE / (CHECK_SECONDS * CHECKS))
#: At most one a second, all in all.
ALLOWED = MINUTE - HEARING
_PARTS = {
    "api": {Role.API},
    "worker": {Role.WORKER},
    "scheduler": {Role.SCHEDULER},
    "standalone": {Role.API, Role.SCHEDULER, Role.WORKER},
}


async def mail() -> None:
    """Do nothing."""


class House:
    """Processes that share a store, each with the parts that its roles need, in one loop of virtual time."""

    def __init__(self, stack: AsyncExitStack, store: Store) -> None:
        self._stack = stack
        self._store = store

    async def start(self, name: str, roles: set[Role]) -> FaultyStore:
        """Start the components of a process, and return the recording store that they use."""
        faulty_store = FaultyStore(self._store)
        seen = cast("Store", faulty_store)
        loop = asyncio.get_running_loop()
        broker = InStoreBroker(seen)
        self._stack.push_async_callback(broker.close)
        engine = Engine(seen, broker, clock=lambda: BASE + timedelta(seconds=loop.time()), rng=lambda: 0.5)
        own = [role for role in roles if role is not Role.WORKER]
        membership = Membership(DatabaseCoordinator(seen), engine, own, clock=loop.time)
        membership.instance = name
        self._run(membership.run())
        if Role.SCHEDULER in roles:
            self._run(Scheduler(engine, stands_by=lambda: membership.stands_by, rng=lambda: 0.5).run())
        if Role.WORKER in roles:
            options = WorkerOptions(name=name, boot=name, own_loop=False)
            handlers = Handlers([handler_of(mail, type="mail")])
            worker = Worker(
                engine, handlers, options, announce_member=membership.announce, store_time=engine.store.time
            )
            membership.add_worker(worker.member)
            self._run(worker.run())
        return faulty_store

    def _run(self, part: Awaitable[None]) -> None:
        task = asyncio.ensure_future(part)

        async def end() -> None:
            task.cancel()
            await asyncio.wait([task])

        self._stack.push_async_callback(end)


def asked_in_a_minute(kind: str, *, beside: str | None = None) -> Counter[str]:
    """Count the statements of an idle process in a minute."""

    async def story() -> Counter[str]:
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            store = await SqliteStore.open(":memory:", clock=lambda: BASE + timedelta(seconds=loop.time()))
            stack.push_async_callback(store.close)
            caller_tx_config = House(stack, store)
            if beside is not None:
                await caller_tx_config.start("first", _PARTS[beside])
                await asyncio.sleep(1)
            faulty_store = await caller_tx_config.start("watched", _PARTS[kind])
            await asyncio.sleep(SETTLING_SECONDS)
            faulty_store.calls.clear()
            await asyncio.sleep(MINUTE)
            # To watch is to be told: what that takes is counted by itself.
            return Counter(verb for verb in faulty_store.calls if verb != "watch")

    return run(story(), seed=7)


@pytest.mark.parametrize(
    ("kind", "beside"),
    [
        ("api", "scheduler"),
        ("worker", "scheduler"),
        ("scheduler", None),
        ("scheduler", "scheduler"),
        ("standalone", None),
        ("standalone", "standalone"),
    ],
)
def test_an_idle_process_asks_no_more_than_once_a_second(kind: str, beside: str | None) -> None:
    asked = asked_in_a_minute(kind, beside=beside)
    assert asked, "it is alive"
    # Each is one statement on a server, as the tests below see to; but once a minute there is one more or two, for what
    # a broker that nobody uses may have left behind.
    assert set(asked) <= {"check_in", "claim", "timetable", "due_operations", "prune", "queued"}, asked
    assert asked["due_operations"] <= MINUTE / LOOK_EVERY.total_seconds() + 1, asked
    assert asked.total() + asked["queued"] <= ALLOWED, asked


def test_all_that_a_process_has_to_say_of_itself_is_said_at_once() -> None:
    asked = asked_in_a_minute("standalone")
    assert asked["check_in"] <= MINUTE / 2.4 + 1
    assert not {"beat", "lead", "leader", "queues", "members"} & set(asked)


Idling = Callable[[Store], Awaitable[object]]
TYPES = ("a", "b", "mail", "report", "z")


async def _check_in(store: Store) -> object:
    members = (Member(Role.SCHEDULER, "me", "boot-1"), Member(Role.WORKER, "me", "boot-2", types=TYPES))
    return await store.check_in(MemberHeartbeat(members, LEAD, "me", TERM))


IDLING: dict[str, Idling] = {
    "checks in": _check_in,
    "claims of several types": lambda store: store.claim(claim(types=TYPES, claim_id="1", is_new=True)),
    "claims of one type": lambda store: store.claim(claim(types=("mail",), claim_id="2", is_new=True)),
    "looks at the timetable": lambda store: store.timetable(),
    "prunes": lambda store: store.prune(Retention(), 500),
}


@pytest.fixture
async def postgres() -> AsyncIterator[PostgresStore]:
    async with migrated_database(shared_postgres()) as dsn:
        store = await PostgresStore.open(dsn)
        yield store
        await store.close()


@pytest.fixture
async def mariadb() -> AsyncIterator[MysqlStore]:
    async with empty_database() as url:
        store = await MysqlStore.open(url)
        yield store
        await store.close()


@pytest.mark.parametrize("act", IDLING.values(), ids=IDLING.keys())
async def test_it_is_one_statement_on_postgresql(postgres: PostgresStore, act: Idling) -> None:
    # Twice before: the first prepares it, and prepares the archive for the days to come.
    await act(postgres)
    await act(postgres)
    counts = await PostgresQueries(postgres).counted(lambda: act(postgres))
    assert counts["statements"] == 1


@pytest.mark.parametrize("act", IDLING.values(), ids=IDLING.keys())
async def test_it_is_one_statement_on_mariadb(mariadb: MysqlStore, act: Idling) -> None:
    await act(mariadb)
    counter = MariadbQuestions(shared_mariadb().port)
    counts = [await counter.counted(lambda: act(mariadb)) for _ in range(2)]
    assert [one["statements"] for one in counts] == [1, 1], "however long ago the server was asked for the time"

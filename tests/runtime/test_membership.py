"""Membership: how long a lead is valid, and what a process does without the coordinator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from engine.environment import FaultyStore
from rota.coordination.database import DatabaseCoordinator
from rota.coordination.local import LocalCoordinator
from rota.core.cluster import (
    ALIVE_FOR,
    LEAD,
    TERM,
    ClusterView,
    Leadership,
    Member,
    MemberHeartbeat,
    Rank,
    Role,
    trusted_seconds,
)
from rota.core.configuration import Configuration
from rota.core.errors import CoordinatorUnavailable, StoreUnavailable
from rota.engine import Engine
from rota.ports.coordinator import Coordinator
from rota.ports.store import Store
from rota.runtime.link import link_of
from rota.runtime.membership import (
    ANSWER_SECONDS,
    HEALTHY_FOR_SECONDS,
    HEARTBEAT,
    LEAD_INTERVAL,
    READ_INTERVAL,
    RETRY_SECONDS,
    SILENCE_SECONDS,
    Membership,
)
from rota.stores.sqlite import SqliteStore
from rota.telemetry.events import LeaderChanged

SECONDS = TERM.total_seconds()


class Watch:
    """A steady clock that tests move."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Faulty:
    """A coordinator that can be away, and that can be slow: time passes while it answers."""

    def __init__(self, watch: Watch) -> None:
        self._real = LocalCoordinator(clock=watch)
        self._watch = watch
        self.is_away = False
        self.slowness = 0.0
        self.name = "faulty"
        self.keeps_members_in_store = False
        self.check_in = None

    def __getattr__(self, verb: str) -> Callable[..., object]:
        async def call(*arguments: object) -> object:
            if self.is_away:
                raise CoordinatorUnavailable("away")
            answer = await getattr(self._real, verb)(*arguments)
            self._watch.now += self.slowness
            return answer

        return call


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def faulty(watch: Watch) -> Faulty:
    return Faulty(watch)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    link = link_of(await SqliteStore.open(":memory:"))
    assert link.engine is not None
    yield link.engine
    await link.close()


def membership_of(faulty: Faulty, engine: Engine | None, watch: Watch, *roles: Role, name: str = "me") -> Membership:
    membership = Membership(cast("Coordinator", faulty), engine, roles or (Role.SCHEDULER,), clock=watch)
    membership.instance = name
    return membership


@asynccontextmanager
async def running(membership: Membership) -> AsyncIterator[None]:
    task = asyncio.create_task(membership.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - several loops of one process, and no event that tells of all
            await asyncio.sleep(0.01)


async def test_a_lead_is_trusted_for_less_than_it_lasts(faulty: Faulty, engine: Engine, watch: Watch) -> None:
    membership = membership_of(faulty, engine, watch)
    assert not membership.is_leader
    await membership._campaign()
    assert (membership.is_leader, membership.leader, membership.stands_by) == (True, "me", False)
    watch.now += SECONDS * 0.8 - 0.01
    assert membership.is_leader
    watch.now += 0.02
    assert not membership.is_leader
    assert membership.leader is None


async def test_a_slow_answer_does_not_lengthen_the_trust(faulty: Faulty, engine: Engine, watch: Watch) -> None:
    """The lead counts from when the coordinator got the request, which is before its answer came."""
    membership = membership_of(faulty, engine, watch)
    faulty.slowness = SECONDS * 0.8
    await membership._campaign()
    assert not membership.is_leader


async def test_a_process_suspended_past_its_term_no_longer_leads_and_learns_the_leader(
    faulty: Faulty, engine: Engine, watch: Watch
) -> None:
    ours, theirs = membership_of(faulty, engine, watch), membership_of(faulty, engine, watch, name="other")
    await ours._campaign()
    await theirs._campaign()
    assert (theirs.leader, theirs.stands_by) == ("me", True)
    watch.now += SECONDS + 1
    assert not ours.is_leader, "at once, before it has asked anybody"
    await theirs._campaign()
    await ours._campaign()
    assert (ours.leader, ours.stands_by, theirs.is_leader) == ("other", True, True)


async def test_an_api_node_knows_the_leader_and_never_leads(faulty: Faulty, engine: Engine, watch: Watch) -> None:
    api = membership_of(faulty, engine, watch, Role.API, name="api")
    seen = []
    for _ in range(2):
        await api._campaign()
        seen.append((api.leader, api.is_leader))
        await membership_of(faulty, engine, watch)._campaign()
    assert seen == [(None, False), ("me", False)]


async def test_a_change_of_leader_is_told_once(faulty: Faulty, engine: Engine, watch: Watch) -> None:
    answer: list[str] = []

    def hear(event: object) -> None:
        if isinstance(event, LeaderChanged):
            answer.append(event.leadership.holder)

    engine.telemetry.listen(hear)
    membership = membership_of(faulty, engine, watch)
    for _ in range(3):
        await membership._campaign()
    await faulty._real.resign(LEAD, "me")
    await faulty._real.campaign(LEAD, "other", TERM)
    for _ in range(3):
        await membership._campaign()
    assert answer == ["me", "other"]


async def test_a_coordinator_that_is_away_is_noticed_survived_and_healed(
    faulty: Faulty, engine: Engine, watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    membership = membership_of(faulty, engine, watch)
    faulty.is_away = True
    with caplog.at_level(logging.INFO, "rota.membership"):
        for _ in range(5):
            await membership._tried("leader election", membership._campaign)
        assert len(caplog.records) == 1, "said once"
        assert membership.is_healthy, "one moment is no outage"
        watch.now += HEALTHY_FOR_SECONDS + 0.1
        assert (membership.is_healthy, membership.leader, membership.stands_by) == (False, None, False)
        faulty.is_away = False
        await membership._tried("leader election", membership._campaign)
        assert (membership.is_healthy, membership.is_leader) == (True, True)
        assert "again" in caplog.records[-1].message


async def test_a_coordinator_that_fails_as_nobody_foresaw_ends_nothing(
    faulty: Faulty, engine: Engine, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> Leadership:
        raise ZeroDivisionError

    monkeypatch.setattr(faulty._real, "campaign", fail)
    membership = membership_of(faulty, engine, watch)
    await membership._tried("leader election", membership._campaign)
    assert membership.leader is None


async def test_all_in_a_process_are_known_while_it_runs_and_gone_afterwards(
    faulty: Faulty, engine: Engine, watch: Watch
) -> None:
    seen: list[Sequence[Member]] = []
    membership = membership_of(faulty, engine, watch, Role.SCHEDULER, Role.API)
    membership.add_worker(lambda: Member(Role.WORKER, "ada", "boot-1", slots=3))
    async with running(membership):
        await until(lambda: len(faulty._real._members) == 3 and membership.is_leader)
        seen.append(await faulty._real.members())
        seen.append(await engine.store.members())
    assert [(member.role, member.name) for member in seen[0]] == [("worker", "ada"), ("api", "me"), ("scheduler", "me")]
    assert {member.role for member in seen[1]} == {Role.API, Role.SCHEDULER}, "a worker tells the store itself"
    assert await faulty._real.members() == []
    assert list(await engine.store.members()) == []
    assert await faulty._real.leader(LEAD) is None, "the lead was given up"


async def test_heartbeats_reach_the_store_while_the_coordinator_is_away(
    faulty: Faulty, engine: Engine, watch: Watch
) -> None:
    faulty.is_away = True
    membership = membership_of(faulty, engine, watch)
    with pytest.raises(CoordinatorUnavailable):
        await membership._enlist()
    assert [member.name for member in await engine.store.members()] == ["me"]


class InStore:
    """The store as coordinator, whose calls can fail and are recorded."""

    def __init__(self, engine: Engine) -> None:
        self.faulty_store = FaultyStore(engine.store)
        self.coordinator = DatabaseCoordinator(cast("Store", self.faulty_store), poll_interval=timedelta(seconds=3600))

    def membership(self, watch: Watch, *roles: Role) -> Membership:
        membership = Membership(self.coordinator, None, roles, clock=watch)
        membership.instance = "me"
        return membership


@pytest.fixture
def in_store(engine: Engine) -> InStore:
    return InStore(engine)


WORKER = Member(Role.WORKER, "ada", "boot-1", slots=3)


async def test_in_the_store_all_is_said_in_one(in_store: InStore, engine: Engine, watch: Watch) -> None:
    membership = in_store.membership(watch, Role.SCHEDULER, Role.API)
    membership.add_worker(lambda: WORKER)
    async with running(membership):
        await until(lambda: membership.is_leader)
        roles = {member.role for member in await engine.store.members()}
    assert roles == {Role.SCHEDULER, Role.API, Role.WORKER}
    assert in_store.faulty_store.calls.count("check_in") >= 1
    assert not {"beat", "lead", "leader"} & set(in_store.faulty_store.calls)
    assert [member.role for member in await engine.store.members()] == [Role.WORKER], "which ends by itself"
    assert await engine.store.leader(LEAD) is None


async def test_the_rank_of_a_worker_is_learnt_with_it(
    in_store: InStore, engine: Engine, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the store tells one; a file does not."""
    check_in = in_store.coordinator.check_in
    ranks = {WORKER.boot: Rank(1, 2)}

    async def ranked(answer: MemberHeartbeat) -> ClusterView:
        return replace(await check_in(answer), ranks=ranks)

    monkeypatch.setattr(in_store.coordinator, "check_in", ranked)
    membership = Membership(in_store.coordinator, engine, clock=watch)
    membership.add_worker(lambda: WORKER)
    async with running(membership), asyncio.timeout(10):
        await until(lambda: bool(engine.leases.ranks))
    assert engine.leases.ranks == ranks


async def test_a_change_of_the_configuration_is_seen_with_it(in_store: InStore, watch: Watch) -> None:
    membership = in_store.membership(watch, Role.API)
    async with running(membership):
        await until(lambda: "check_in" in in_store.faulty_store.calls)
        seen = await in_store.coordinator.configuration()
        waiting = asyncio.create_task(in_store.coordinator.changed(seen, timedelta(seconds=3000)))
        await in_store.coordinator.configure("colour", "green")
        async with asyncio.timeout(60):
            assert (await waiting).values == {"colour": "green"}


async def test_a_word_that_was_lost_is_said_again_while_the_lead_is_trusted(in_store: InStore, watch: Watch) -> None:
    """The next beat would come after the trust has ended if there were just one within it."""
    assert LEAD_INTERVAL.total_seconds() + RETRY_SECONDS < trusted_seconds(TERM)
    assert READ_INTERVAL.total_seconds() < trusted_seconds(TERM), "an API knows all the time who leads"
    membership = in_store.membership(watch, Role.SCHEDULER)
    in_store.faulty_store.cut("check_in")
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with running(membership):
        await until(lambda: membership.is_leader)
    assert in_store.faulty_store.calls.count("check_in") == 2
    assert loop.time() - begun < LEAD_INTERVAL.total_seconds() * 0.8


async def test_a_heartbeat_without_an_answer_is_repeated_before_the_process_counts_as_stopped(
    in_store: InStore, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = HEARTBEAT.total_seconds() + ANSWER_SECONDS + RETRY_SECONDS
    assert longest < ALIVE_FOR.total_seconds()
    assert longest < HEALTHY_FOR_SECONDS, "one answer that does not come is no outage"
    monkeypatch.setattr("rota.runtime.membership.ANSWER_SECONDS", 0.05)
    check_in = in_store.coordinator.check_in
    asked: list[MemberHeartbeat] = []

    async def without_a_word_at_first(answer: MemberHeartbeat) -> ClusterView:
        asked.append(answer)
        if len(asked) == 1:
            await asyncio.Event().wait()
        return await check_in(answer)

    monkeypatch.setattr(in_store.coordinator, "check_in", without_a_word_at_first)
    membership = in_store.membership(watch, Role.SCHEDULER)
    async with running(membership), asyncio.timeout(10):
        await until(lambda: membership.is_leader)
    assert len(asked) == 2


async def test_a_workers_word_is_passed_on_when_it_comes_and_when_it_goes(
    in_store: InStore, engine: Engine, watch: Watch
) -> None:
    membership = in_store.membership(watch)
    await membership.announce(WORKER)
    assert [member.busy for member in await engine.store.members()] == [0]
    await membership.announce(replace(WORKER, busy=2))
    assert [member.busy for member in await engine.store.members()] == [0], "the next time we check in"
    await membership.announce(replace(WORKER, is_draining=True))
    assert [member.is_draining for member in await engine.store.members()] == [True]


async def test_whether_a_workers_word_was_taken_is_known_while_nobody_can_check_in(
    in_store: InStore, watch: Watch
) -> None:
    """Its page of health rests on that."""
    membership = in_store.membership(watch)
    await membership.announce(WORKER)
    watch.now += SILENCE_SECONDS + 0.1
    in_store.faulty_store.cut("beat")
    with pytest.raises(StoreUnavailable):
        await membership.announce(WORKER)


@pytest.fixture
def root_level() -> Iterator[None]:
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)


@pytest.mark.usefixtures("root_level")
async def test_the_log_level_follows_the_configuration_and_returns_to_the_settings(
    faulty: Faulty, engine: Engine, watch: Watch
) -> None:
    membership = Membership(cast("Coordinator", faulty), engine, [Role.API], log_level="warning", clock=watch)
    root = logging.getLogger()
    await faulty._real.configure("log_level", "error")
    async with running(membership):
        await until(lambda: root.level == logging.ERROR)
        await faulty._real.configure("log_level", "debug")
        await until(lambda: root.level == logging.DEBUG)
        await faulty._real.configure("log_level", None)
        await until(lambda: root.level == logging.WARNING)


@pytest.mark.usefixtures("root_level")
async def test_a_log_level_that_nobody_knows_ends_nothing(faulty: Faulty, engine: Engine, watch: Watch) -> None:
    root = logging.getLogger()
    await faulty._real.configure("log_level", "trace")
    async with running(membership_of(faulty, engine, watch)):
        await faulty._real.configure("log_level", "error")
        await until(lambda: root.level == logging.ERROR)


@pytest.mark.usefixtures("root_level")
async def test_a_configuration_that_cannot_be_read_is_heeded_as_it_was(
    faulty: Faulty, engine: Engine, watch: Watch
) -> None:
    root = logging.getLogger()
    membership = membership_of(faulty, engine, watch)
    await faulty._real.configure("log_level", "error")
    async with running(membership):
        await until(lambda: root.level == logging.ERROR)
        faulty.is_away = True
        await faulty._real.configure("log_level", "debug")
        # The watch that was under way is answered; the next ones are not.
        await until(lambda: root.level == logging.DEBUG)
        await faulty._real.configure("log_level", "info")
        faulty.is_away = False
        await until(lambda: root.level == logging.INFO)


async def test_a_watch_that_ends_at_once_is_not_begun_again_at_once(
    faulty: Faulty, engine: Engine, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An etcd that answers reads and refuses watches would have got thousands of requests a second."""
    calls: list[float] = []

    async def changed(since: Configuration, at_most: timedelta) -> Configuration:
        del at_most
        calls.append(asyncio.get_running_loop().time())
        return since

    monkeypatch.setattr(faulty._real, "changed", changed)
    async with running(membership_of(faulty, engine, watch)):
        await until(lambda: len(calls) >= 4)
    # At least a twentieth, a tenth and a fifth of a second apart, by half at the most.
    assert calls[3] - calls[0] >= (0.05 + 0.1 + 0.2) / 2


async def test_a_coordinator_that_hangs_does_not_hold_up_the_end(
    faulty: Faulty, engine: Engine, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(faulty._real, "resign", hang)
    monkeypatch.setattr("rota.runtime.membership.LEAVE_SECONDS", 0.05)
    membership = membership_of(faulty, engine, watch)
    async with asyncio.timeout(50):
        async with running(membership):
            await until(lambda: membership.is_leader)
    assert isinstance(await faulty._real.changed(Configuration(), timedelta(0)), Configuration)

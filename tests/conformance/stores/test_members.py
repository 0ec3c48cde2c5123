from __future__ import annotations

from dataclasses import replace

from builders import BASE, MICROSECOND, at
from rota.core.cluster import Member, MemberHeartbeat, Role
from rota.core.ledger import LedgerEntry
from rota.core.worker_orders import NO_ORDERS, OrderChange, WorkerFacts, WorkerOrders
from rota.ports.store import Store

ADA = Member(
    role=Role.WORKER,
    name="ada",
    boot="b1",
    host="h1",
    pid=4242,
    version="1.0",
    address="10.0.0.1:80",
    queues=("a", "b"),
    types=("mail", "report"),
    slots=8,
    busy=3,
    is_draining=True,
    started_at=at(-60),
)
SAM = Member(role=Role.SCHEDULER, name="sam", boot="b2", started_at=at(-50))
QUIET = WorkerOrders(quiet=True)
FACTS = WorkerFacts(
    cpu=1.5,
    rss=2**40,
    fds=7,
    threads_left_behind=2,
    is_quiet=True,
    jobs=("0000000000001",),
    sent_at=at(3) + MICROSECOND,
    stacks='thread "main"\n  grün 🙂',
    stacks_at=at(4),
)


async def test_what_a_worker_tells_about_itself_comes_back(store: Store) -> None:
    await store.beat([replace(ADA, facts=FACTS), SAM], now=at(1))
    assert [member.facts for member in await store.members()] == [FACTS, None]
    view = MemberHeartbeat((replace(ADA, facts=replace(FACTS, cpu=None)),), "upkeep")
    await store.check_in(view, now=at(2))
    assert (await store.members())[0].facts == replace(FACTS, cpu=None)


async def test_orders_reach_a_process_with_its_heartbeats_until_they_are_taken_back(store: Store) -> None:
    beat = MemberHeartbeat((replace(ADA, orders=WorkerOrders(stop=True)), SAM), "upkeep")
    assert await store.beat(beat.members, now=at(1)) == {}
    assert await store.order(OrderChange("b1", QUIET, NO_ORDERS), now=at(1))
    assert await store.beat(beat.members, now=at(2)) == {"b1": QUIET}
    assert (await store.check_in(beat, now=at(3))).orders == {"b1": QUIET}
    assert [member.orders for member in await store.members()] == [QUIET, NO_ORDERS]
    assert await store.order(OrderChange("b1", NO_ORDERS, QUIET), now=at(3))
    assert (await store.check_in(beat, now=at(4))).orders == {}
    assert await store.beat(beat.members, now=at(5)) == {}


async def test_orders_that_were_changed_meanwhile_are_not_replaced(store: Store) -> None:
    await store.beat([ADA], now=at(1))
    entry = LedgerEntry("olga", "workers.quiet", "ada", "", "")
    assert not await store.order(OrderChange("b9", QUIET, NO_ORDERS), entry=entry, now=at(1))
    assert not await store.order(OrderChange("b1", QUIET, WorkerOrders(stop=True)), entry=entry, now=at(1))
    assert await store.ledger() == []
    assert await store.order(OrderChange("b1", QUIET, NO_ORDERS), entry=entry, now=at(1))
    assert not await store.order(OrderChange("b1", WorkerOrders(stop=True), NO_ORDERS), entry=entry, now=at(1))
    assert await store.order(OrderChange("b1", WorkerOrders(stop=True, stacks=2), QUIET), entry=entry, now=at(1))
    assert [one.action for one in await store.ledger()] == ["workers.quiet"] * 2
    assert (await store.members())[0].orders == WorkerOrders(stop=True, stacks=2)


async def test_a_process_is_on_record_as_it_described_itself(store: Store) -> None:
    await store.beat([ADA], now=at(1))
    assert await store.members() == [replace(ADA, seen_at=at(1))]


async def test_a_later_beat_replaces_the_description(store: Store) -> None:
    await store.beat([ADA], now=at(1))
    await store.beat([replace(ADA, busy=8, is_draining=False)], now=at(2))
    assert await store.members() == [replace(ADA, busy=8, is_draining=False, seen_at=at(2))]


async def test_a_process_that_does_not_say_when_it_started_did_so_when_it_was_first_seen(store: Store) -> None:
    await store.beat([replace(ADA, started_at=None)], now=at(1))
    await store.beat([replace(ADA, started_at=None)], now=at(2))
    assert [(member.started_at, member.seen_at) for member in await store.members()] == [(at(1), at(2))]


async def test_every_type_and_no_type_are_told_apart(store: Store) -> None:
    every, none = replace(ADA, types=None), replace(SAM, types=())
    await store.beat([every, none], now=BASE)
    assert [member.types for member in await store.members()] == [None, ()]


async def test_a_reused_name_is_another_process(store: Store) -> None:
    reborn = replace(ADA, boot="b9", started_at=at(0))
    await store.beat([reborn, ADA], now=at(1))
    assert [member.boot for member in await store.members()] == ["b1", "b9"]


async def test_processes_come_by_name_and_start(store: Store) -> None:
    fleet = [
        replace(ADA, name=name, boot=f"{name}{start}", started_at=at(start))
        for name, start in (("c", 1), ("a", 3), ("b", 2), ("a", 1))
    ]
    await store.beat(fleet, now=BASE)
    assert [member.boot for member in await store.members()] == ["a1", "a3", "b2", "c1"]


async def test_processes_can_be_asked_for_by_role(store: Store) -> None:
    await store.beat([ADA, SAM], now=BASE)
    assert [member.name for member in await store.members(role=Role.SCHEDULER)] == ["sam"]
    assert await store.members(role=Role.API) == []


async def test_only_those_seen_at_or_after_a_moment_are_given(store: Store) -> None:
    await store.beat([ADA], now=at(1))
    await store.beat([SAM], now=at(2))
    assert [member.name for member in await store.members(since=at(2))] == ["sam"]
    assert await store.members(since=at(2) + MICROSECOND) == []


async def test_role_and_moment_are_asked_for_together(store: Store) -> None:
    await store.beat([ADA, SAM], now=at(1))
    assert [member.name for member in await store.members(role=Role.WORKER, since=at(1))] == ["ada"]


async def test_a_member_that_left_is_deleted(store: Store) -> None:
    await store.beat([ADA, SAM], now=BASE)
    await store.leave(["b1", "unknown"])
    assert [member.name for member in await store.members()] == ["sam"]


async def test_a_member_that_left_may_come_back(store: Store) -> None:
    await store.beat([ADA], now=BASE)
    await store.leave(["b1"])
    await store.beat([ADA], now=at(5))
    assert [member.seen_at for member in await store.members()] == [at(5)]

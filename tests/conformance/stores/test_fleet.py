from __future__ import annotations

from dataclasses import replace

from building import BASE, MICROSECOND, at
from rota.core.cluster import Member, Role
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


async def test_who_said_goodbye_is_forgotten(store: Store) -> None:
    await store.beat([ADA, SAM], now=BASE)
    await store.leave(["b1", "unknown"])
    assert [member.name for member in await store.members()] == ["sam"]


async def test_who_said_goodbye_may_come_back(store: Store) -> None:
    await store.beat([ADA], now=BASE)
    await store.leave(["b1"])
    await store.beat([ADA], now=at(5))
    assert [member.seen_at for member in await store.members()] == [at(5)]

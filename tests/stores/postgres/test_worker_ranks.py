"""Heartbeats return a worker's rank among the live workers that take the same jobs."""

from __future__ import annotations

from dataclasses import replace

from builders import BASE, at
from rota.core.cluster import Member, MemberHeartbeat, Rank, Role
from rota.stores.postgres import PostgresStore

ADA = Member(Role.WORKER, "ada", "b1", queues=("a", 'b "quoted" \\ 100%'), types=("mail", "🙂"), slots=8)
SAM = Member(Role.SCHEDULER, "sam", "b2")


def said(*members: Member) -> MemberHeartbeat:
    return MemberHeartbeat(members, "upkeep")


async def test_a_worker_is_ranked_among_those_that_are_alive_and_take_the_same_jobs(store: PostgresStore) -> None:
    others = [
        replace(ADA, boot="a9"),
        replace(ADA, boot="c1"),
        replace(ADA, boot="c2"),
        replace(ADA, boot="a1", is_draining=True),
        replace(ADA, boot="a2", queues=("a",)),
        replace(ADA, boot="a3", types=("mail",)),
        replace(ADA, boot="a4", types=None),
        replace(ADA, boot="a5", role=Role.API),
    ]
    await store.check_in(said(replace(ADA, boot="a6")), now=at(-10))
    await store.check_in(said(*others), now=at(4))
    assert (await store.check_in(said(SAM, ADA), now=at(5))).ranks == {"b1": Rank(1, 4)}


async def test_a_worker_that_is_alone_or_takes_every_type_has_a_rank_too(store: PostgresStore) -> None:
    first, second = [replace(ADA, boot=boot, types=None) for boot in ("b1", "b2")]
    assert (await store.check_in(said(second), now=BASE)).ranks == {"b2": Rank(0, 1)}
    assert (await store.check_in(said(first), now=BASE)).ranks == {"b1": Rank(0, 2)}
    assert (await store.check_in(said(second), now=at(5))).ranks == {"b2": Rank(1, 2)}


async def test_without_workers_there_are_no_ranks(store: PostgresStore) -> None:
    assert not (await store.check_in(said(SAM), now=BASE)).ranks

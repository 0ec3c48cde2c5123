"""Waiting claims that are woken for a single job: one is repeated at once, the others later, and no job is missed.

In virtual time, with a store that tells what the test lets it tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from builders import claim, fresh_id, ids_of, new_job
from engine.environment import FaultyStore, in_virtual_time
from rota.core.cluster import Rank
from rota.core.lease import WorkerId
from rota.engine import Engine
from rota.ports.store import Store
from rota.ports.wakeup import ANY_CHANGE, EVERY_QUEUE, TIMETABLE, SingleJob, Topic, Wake
from rota.stagger import HEAD_START_SECONDS

ADA, BOB = WorkerId("ada", "boot-1"), WorkerId("bob", "boot-2")
#: With this number it is Ada's turn.
ADAS = SingleJob(4)
LATER = pytest.approx(HEAD_START_SECONDS, abs=1e-4)


class Telling(FaultyStore):
    """A store that reports the topics that the test sets, and records when each worker claims."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.words: asyncio.Queue[Wake] = asyncio.Queue()
        self.asked: list[tuple[str, float]] = []

    async def watch(self, _at_most: timedelta, _heed: object = None) -> Wake:
        return await self.words.get()

    async def claim(self, wanted: Any) -> Any:  # noqa: ANN401 - as the store does
        self.asked.append((wanted.worker.name, asyncio.get_running_loop().time()))
        return await self._store.claim(wanted)


class Place:
    """Ada and Bob, who take the same jobs and wait for some."""

    def __init__(self, engine: Engine, faulty_store: Telling) -> None:
        self.engine = engine
        self.faulty_store = faulty_store

    async def listen(self, *workers: WorkerId) -> list[asyncio.Task[Any]]:
        self.engine.leases.ranks = {ADA.boot: Rank(0, 2), BOB.boot: Rank(1, 2)}
        tasks = [
            asyncio.create_task(self.engine.claim(claim(worker, claim_id=str(fresh_id())), wait=timedelta(seconds=5)))
            for worker in workers
        ]
        await asyncio.sleep(1)
        self.faulty_store.asked.clear()
        return tasks

    async def tell(self, *words: Topic, jobs: int = 1) -> float:
        """Store jobs as another process and report them; return when."""
        await self.faulty_store._store.insert([new_job() for _ in range(jobs)])
        self.faulty_store.words.put_nowait(frozenset(words))
        return asyncio.get_running_loop().time()


def played(act: Callable[[Place], Awaitable[None]]) -> None:
    in_virtual_time(lambda engine, faulty_store: act(Place(engine, faulty_store)), Telling)


def test_whose_turn_it_is_asks_at_once_and_the_other_later() -> None:
    async def act(place: Place) -> None:
        adas, bobs = await place.listen(ADA, BOB)
        told_at = await place.tell("default", ADAS)
        assert len(await adas) == 1
        await asyncio.sleep(1)
        (first, at_once), (second, later) = place.faulty_store.asked
        assert (first, second) == ("ada", "bob")
        assert at_once == pytest.approx(told_at, abs=1e-4)
        assert later - told_at == LATER
        assert not await bobs

    played(act)


def test_a_job_whose_first_worker_does_not_come_is_taken_by_the_next() -> None:
    async def act(place: Place) -> None:
        (bobs,) = await place.listen(BOB)
        told_at = await place.tell("default", ADAS)
        assert len(await bobs) == 1
        assert asyncio.get_running_loop().time() - told_at == LATER

    played(act)


@pytest.mark.parametrize(
    "words",
    [
        ("default",),
        ("default", ADAS, SingleJob(9)),
        ("default", TIMETABLE, ADAS),
        tuple(ANY_CHANGE),
    ],
)
def test_all_ask_at_once_where_it_may_be_more_than_one_job(words: tuple[str, ...]) -> None:
    async def act(place: Place) -> None:
        tasks = await place.listen(ADA, BOB)
        told_at = await place.tell(*words, jobs=200)
        assert all(await asyncio.gather(*tasks))
        assert [round(at - told_at, 3) for _, at in place.faulty_store.asked] == [0, 0]

    played(act)


def test_what_comes_while_somebody_lets_another_go_first_is_asked_for_at_once() -> None:
    async def act(place: Place) -> None:
        (bobs,) = await place.listen(BOB)
        told_at = await place.tell("default", ADAS)
        await asyncio.sleep(HEAD_START_SECONDS / 2)
        place.faulty_store.words.put_nowait(frozenset({EVERY_QUEUE}))
        assert len(await bobs) == 1
        assert asyncio.get_running_loop().time() - told_at < HEAD_START_SECONDS

    played(act)


def test_those_who_come_later_ask_once_for_all_that_came_meanwhile() -> None:
    async def act(place: Place) -> None:
        adas, bobs = await place.listen(ADA, BOB)
        told_at = await place.tell("default", ADAS, jobs=0)
        await asyncio.sleep(HEAD_START_SECONDS / 2)
        await place.tell("default", ADAS, jobs=0)
        await asyncio.sleep(1)
        asked = [(name, at - told_at) for name, at in place.faulty_store.asked]
        assert [name for name, _ in asked] == ["ada", "ada", "bob"]
        assert asked[-1][1] == LATER
        assert not any(await asyncio.gather(adas, bobs))

    played(act)


def test_a_worker_that_came_later_in_vain_comes_later_to_the_next_job_too() -> None:
    async def act(place: Place) -> None:
        (bobs,) = await place.listen(BOB)
        await place.tell("default", ADAS, jobs=0)
        await asyncio.sleep(1)
        told_at = await place.tell("default", ADAS)
        assert len(await bobs) == 1
        assert asyncio.get_running_loop().time() - told_at == LATER

    played(act)


def test_a_worker_without_a_rank_asks_at_once() -> None:
    async def act(place: Place) -> None:
        nobody = WorkerId("eve", "boot-3")
        (theirs,) = await place.listen(nobody)
        told_at = await place.tell("default", ADAS)
        assert len(ids_of(await theirs)) == 1
        assert asyncio.get_running_loop().time() == pytest.approx(told_at, abs=1e-4)

    played(act)

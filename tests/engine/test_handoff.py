"""Claims that wait, on a store that keeps them: how long they are kept, how they are woken, and when they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from builders import SECOND, claim, ids_of, new_job
from engine.environment import FaultyStore, in_virtual_time
from rota.core.job import Job
from rota.core.lease import NO_WAIT, Claim
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.store import Store
from rota.ports.wakeup import ClaimTopic, Topic, Wake


class Keeping(FaultyStore):
    """A store that seems to keep waiting claims, with a delay, and reports the topics that the test sets."""

    keeps_waiting_claims = True
    #: How long a claim takes.
    takes = 0.0

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.words: asyncio.Queue[Wake] = asyncio.Queue()
        self.asked: list[Claim] = []
        #: The jobs that are leased to waiting claims.
        self.at_hand: list[Job] = []

    def leased_meanwhile(self, _wanted: Claim) -> Sequence[Job]:
        given, self.at_hand = self.at_hand, []
        return given

    async def watch(self, _at_most: timedelta, _heed: object = None) -> Wake:
        return await self.words.get()

    async def claim(self, claim: Claim) -> Sequence[Job]:
        self.asked.append(claim)
        await asyncio.sleep(self.takes)
        return await self._store.claim(claim)


class Place:
    """An engine on such a store."""

    def __init__(self, engine: Engine, faulty_store: Keeping) -> None:
        self.engine = engine
        self.faulty_store = faulty_store

    def ask(self, **fields: Any) -> asyncio.Task[Sequence[Job]]:  # noqa: ANN401 - a claim's
        wanted = claim(**{"claim_id": "question", "is_new": True, **fields})
        return asyncio.create_task(self.engine.claim(wanted, wait=5 * SECOND))

    async def put(self, *words: Topic) -> NewJob:
        """Store a job as another process, and report these topics."""
        job = new_job()
        await self.faulty_store._store.insert([job])
        self.faulty_store.words.put_nowait(frozenset(words))
        return job


def played(act: Callable[[Place], Awaitable[None]]) -> None:
    in_virtual_time(lambda engine, faulty_store: act(Place(engine, faulty_store)), Keeping)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_claim_says_how_much_longer_it_stays_each_time_it_is_asked() -> None:
    async def act(place: Place) -> None:
        waiting = place.ask()
        await asyncio.sleep(2)
        place.faulty_store.words.put_nowait({"default"})
        assert not await waiting
        assert [round(wanted.waits.total_seconds(), 3) for wanted in place.faulty_store.asked] == [5, 3]

    played(act)


def test_a_claim_woken_by_a_hand_over_asks_for_its_job() -> None:
    async def act(place: Place) -> None:
        waiting = place.ask()
        await asyncio.sleep(1)
        job = await place.put(ClaimTopic("question"))
        assert ids_of(await waiting) == [job.id]
        assert now() == pytest.approx(1, abs=1e-3)

    played(act)


def test_a_claim_takes_a_job_that_was_sent_with_the_wake_up_without_asking() -> None:
    async def act(place: Place) -> None:
        waiting = place.ask()
        await asyncio.sleep(1)
        job = await place.put()
        place.faulty_store.at_hand = list(await place.faulty_store._store.claim(claim()))
        place.faulty_store.words.put_nowait({ClaimTopic("question")})
        assert ids_of(await waiting) == [job.id]
        assert len(place.faulty_store.asked) == 1

    played(act)


def test_an_answer_to_another_wakes_nobody() -> None:
    async def act(place: Place) -> None:
        waiting = place.ask()
        await asyncio.sleep(1)
        await place.put(ClaimTopic("another question"))
        assert not await waiting
        assert len(place.faulty_store.asked) == 1

    played(act)


def test_a_claim_that_is_woken_all_the_time_gives_up_all_the_same() -> None:
    """A lease is counted from when the question was sent: what is found too late after that cannot be begun."""

    async def act(place: Place) -> None:
        place.faulty_store.takes = 0.02
        waiting = place.ask()
        while not waiting.done():
            place.faulty_store.words.put_nowait({"default"})
            await asyncio.sleep(0.015)
        assert not await waiting
        assert now() == pytest.approx(5, abs=0.1)

    played(act)


@pytest.mark.parametrize("fields", [{"claim_id": None}, {}])
def test_nobody_stays_without_a_name_or_where_claims_are_not_kept(fields: dict[str, Any]) -> None:
    async def act(place: Place) -> None:
        place.faulty_store.keeps_waiting_claims = bool(fields)
        assert not await place.ask(**fields)
        assert [wanted.waits for wanted in place.faulty_store.asked] == [NO_WAIT]

    played(act)

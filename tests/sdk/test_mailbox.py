"""The mailbox: many callers, few crossings, and to each its own answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.desk import MergingDesk
from rota.sdk.mailbox import Mailbox
from rota.sdk.portal import Portal


class Doubling:
    """Doubles numbers and remembers the batches. Whoever comes first waits until the gate is open."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = threading.Event()
        self.has_begun = threading.Event()

    async def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.batches.append(list(numbers))
        self.has_begun.set()
        await asyncio.to_thread(self.gate.wait)
        if 13 in numbers:
            raise InvalidRequest("13")
        if 404 in numbers:
            raise StoreUnavailable("away")
        return [2 * number for number in numbers]


@pytest.fixture
def portal() -> Iterator[Portal]:
    opened = Portal()
    yield opened
    opened.close()


@pytest.fixture
def doubling() -> Doubling:
    return Doubling()


@pytest.fixture
def mailbox(portal: Portal, doubling: Doubling) -> Mailbox[int, int]:
    return Mailbox(portal.loop, MergingDesk(doubling))


async def crowd(
    mailbox: Mailbox[int, int], doubling: Doubling, *batches: Sequence[int]
) -> list[asyncio.Task[Sequence[int]]]:
    """Hand batches in while another is under way."""
    first = asyncio.create_task(mailbox.apost([0]))
    await asyncio.to_thread(doubling.has_begun.wait)
    calls = [asyncio.create_task(mailbox.apost(batch)) for batch in batches]
    await asyncio.sleep(0)
    doubling.gate.set()
    await first
    return calls


async def test_what_comes_meanwhile_is_served_together_and_answered_apart(
    mailbox: Mailbox[int, int], doubling: Doubling
) -> None:
    calls = await crowd(mailbox, doubling, [1], [2, 3], [4])
    assert await asyncio.gather(*calls) == [[2], [4, 6], [8]]
    assert doubling.batches == [[0], [1, 2, 3, 4]]


async def test_who_hands_in_nothing_is_answered_so_and_gets_nothing_of_others(
    mailbox: Mailbox[int, int], doubling: Doubling
) -> None:
    calls = await crowd(mailbox, doubling, [], [1], [2, 3])
    assert await asyncio.gather(*calls) == [[], [2], [4, 6]]


async def test_a_crowd_crosses_once_there_and_once_back(
    mailbox: Mailbox[int, int], doubling: Doubling, portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubling.gate.set()
    crossings: list[str] = []
    loop = asyncio.get_running_loop()
    for name, place in (("there", portal.loop), ("back", loop)):
        cross = place.call_soon_threadsafe

        def crossed(*arguments: object, name: str = name, cross: object = cross, **options: object) -> object:
            crossings.append(name)
            return cross(*arguments, **options)  # type: ignore[operator]

        if name == "back":
            monkeypatch.setattr(loop, "call_soon_threadsafe", crossed)
        else:
            monkeypatch.setattr(mailbox, "_loop", _Seen(portal.loop, crossed))
    answers = await asyncio.gather(*(mailbox.apost([number]) for number in range(1000, 1200)))
    assert answers == [[2 * number] for number in range(1000, 1200)]
    assert len(crossings) < 20


class _Seen:
    """A loop of which one function is seen."""

    def __init__(self, loop: asyncio.AbstractEventLoop, crossed: object) -> None:
        self._loop = loop
        self.call_soon_threadsafe = crossed

    def __getattr__(self, name: str) -> object:
        return getattr(self._loop, name)


async def test_one_that_cannot_be_served_does_not_fail_its_neighbours(
    mailbox: Mailbox[int, int], doubling: Doubling
) -> None:
    calls = await crowd(mailbox, doubling, [1], [13], [2])
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [answers[0], answers[2]] == [[2], [4]]
    assert isinstance(answers[1], InvalidRequest)


async def test_when_the_store_is_away_everybody_is_told(mailbox: Mailbox[int, int], doubling: Doubling) -> None:
    calls = await crowd(mailbox, doubling, [1], [404])
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    assert doubling.batches == [[0], [1, 404]], "nobody asks again one by one"


async def test_who_goes_away_is_left_out(mailbox: Mailbox[int, int], doubling: Doubling) -> None:
    doubling.gate.set()
    leaving = asyncio.create_task(mailbox.apost([1]))
    staying = asyncio.create_task(mailbox.apost([2]))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == [4]
    assert leaving.cancelled()


def test_threads_share_batches_too(mailbox: Mailbox[int, int], doubling: Doubling) -> None:
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(mailbox.post, [0])
        doubling.has_begun.wait()
        others = [pool.submit(mailbox.post, [number]) for number in range(1, 9)]
        while len(mailbox._letters) + sum(len(crowd.batches) for crowd in mailbox._desk._waiting) < 8:
            threading.Event().wait(0.001)
        doubling.gate.set()
        assert [future.result() for future in (first, *others)] == [[2 * number] for number in range(9)]
    assert [sorted(batch) for batch in doubling.batches] == [[0], list(range(1, 9))]


def test_what_was_handed_in_is_answered_before_it_closes(
    mailbox: Mailbox[int, int], doubling: Doubling, portal: Portal
) -> None:
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(mailbox.post, [1])
        doubling.has_begun.wait()
        second = pool.submit(mailbox.post, [2])
        while not mailbox._letters and not mailbox._desk._waiting:
            threading.Event().wait(0.001)
        closing = portal.submit(mailbox.close())
        doubling.gate.set()
        closing.result()
        assert (first.result(), second.result()) == ([2], [4])
        with pytest.raises(StoreUnavailable, match="closed"):
            mailbox.post([3])


def test_a_mailbox_whose_loop_is_closed_refuses_and_goes_on_refusing(doubling: Doubling) -> None:
    portal = Portal()
    mailbox: Mailbox[int, int] = Mailbox(portal.loop, MergingDesk(doubling))
    portal.close()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="closed"):
            mailbox.post([1])

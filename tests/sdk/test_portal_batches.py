"""The portal's batcher: many callers, few switches between threads, and each caller gets its own answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from rota.batching import Batcher
from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.sdk.portal import Portal, PortalBatcher


class Doubling:
    """Doubles numbers and remembers the batches. The first call waits until the gate is open."""

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
def batcher(portal: Portal, doubling: Doubling) -> PortalBatcher[int, int]:
    return PortalBatcher(portal.loop, Batcher(doubling))


async def crowd(
    batcher: PortalBatcher[int, int], doubling: Doubling, *batches: Sequence[int]
) -> list[asyncio.Task[Sequence[int]]]:
    """Submit batches while another is being served."""
    first = asyncio.create_task(batcher.asubmit([0]))
    await asyncio.to_thread(doubling.has_begun.wait)
    calls = [asyncio.create_task(batcher.asubmit(batch)) for batch in batches]
    await asyncio.sleep(0)
    doubling.gate.set()
    await first
    return calls


async def test_what_comes_meanwhile_is_served_together_and_answered_apart(
    batcher: PortalBatcher[int, int], doubling: Doubling
) -> None:
    calls = await crowd(batcher, doubling, [1], [2, 3], [4])
    assert await asyncio.gather(*calls) == [[2], [4, 6], [8]]
    assert doubling.batches == [[0], [1, 2, 3, 4]]


async def test_an_empty_call_gets_no_answers_and_none_of_others(
    batcher: PortalBatcher[int, int], doubling: Doubling
) -> None:
    calls = await crowd(batcher, doubling, [], [1], [2, 3])
    assert await asyncio.gather(*calls) == [[], [2], [4, 6]]


async def test_many_calls_switch_threads_once_there_and_once_back(
    batcher: PortalBatcher[int, int], doubling: Doubling, portal: Portal, monkeypatch: pytest.MonkeyPatch
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
            monkeypatch.setattr(batcher, "_loop", _Seen(portal.loop, crossed))
    answers = await asyncio.gather(*(batcher.asubmit([number]) for number in range(1000, 1200)))
    assert answers == [[2 * number] for number in range(1000, 1200)]
    assert len(crossings) < 20


class _Seen:
    """A loop of which one function is seen."""

    def __init__(self, loop: asyncio.AbstractEventLoop, crossed: object) -> None:
        self._loop = loop
        self.call_soon_threadsafe = crossed

    def __getattr__(self, name: str) -> object:
        return getattr(self._loop, name)


async def test_a_refused_call_does_not_fail_the_others_of_its_batch(
    batcher: PortalBatcher[int, int], doubling: Doubling
) -> None:
    calls = await crowd(batcher, doubling, [1], [13], [2])
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [answers[0], answers[2]] == [[2], [4]]
    assert isinstance(answers[1], InvalidRequest)


async def test_an_unavailable_store_fails_every_caller_of_the_batch(
    batcher: PortalBatcher[int, int], doubling: Doubling
) -> None:
    calls = await crowd(batcher, doubling, [1], [404])
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    assert doubling.batches == [[0], [1, 404]], "nobody asks again one by one"


async def test_a_cancelled_call_is_left_out(batcher: PortalBatcher[int, int], doubling: Doubling) -> None:
    doubling.gate.set()
    leaving = asyncio.create_task(batcher.asubmit([1]))
    staying = asyncio.create_task(batcher.asubmit([2]))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == [4]
    assert leaving.cancelled()


def test_threads_share_batches_too(batcher: PortalBatcher[int, int], doubling: Doubling) -> None:
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(batcher.submit, [0])
        doubling.has_begun.wait()
        others = [pool.submit(batcher.submit, [number]) for number in range(1, 9)]
        while len(batcher._requests) + sum(len(crowd.batches) for crowd in batcher._batcher._waiting) < 8:
            threading.Event().wait(0.001)
        doubling.gate.set()
        assert [future.result() for future in (first, *others)] == [[2 * number] for number in range(9)]
    assert [sorted(batch) for batch in doubling.batches] == [[0], list(range(1, 9))]


def test_what_was_submitted_is_answered_before_it_closes(
    batcher: PortalBatcher[int, int], doubling: Doubling, portal: Portal
) -> None:
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(batcher.submit, [1])
        doubling.has_begun.wait()
        second = pool.submit(batcher.submit, [2])
        while not batcher._requests and not batcher._batcher._waiting:
            threading.Event().wait(0.001)
        closing = portal.start(batcher.close())
        doubling.gate.set()
        closing.result()
        assert (first.result(), second.result()) == ([2], [4])
        with pytest.raises(StoreUnavailable, match="closed"):
            batcher.submit([3])


def test_a_batcher_whose_loop_is_closed_refuses_and_goes_on_refusing(doubling: Doubling) -> None:
    portal = Portal()
    batcher: PortalBatcher[int, int] = PortalBatcher(portal.loop, Batcher(doubling))
    portal.close()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="closed"):
            batcher.submit([1])

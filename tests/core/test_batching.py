"""Batching: calls that come while one is under way share a batch, and a failing one does not affect the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from rota.batching import Batcher
from rota.core.errors import StoreUnavailable


class Counter:
    """Doubles numbers, one batch at a time, and remembers the batches. It waits at a gate."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.has_begun = asyncio.Event()

    async def __call__(self, numbers: Sequence[int], sharing: object = None) -> list[int]:
        del sharing
        self.batches.append(list(numbers))
        self.has_begun.set()
        await self.gate.wait()
        if 13 in numbers:
            raise ValueError("13")
        if 404 in numbers:
            raise StoreUnavailable("away")
        return [2 * number for number in numbers]


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
def desk(counter: Counter) -> Batcher[int, int]:
    return Batcher(counter, largest=10)


async def crowd(
    desk: Batcher[int, int], counter: Counter, *batches: Sequence[int]
) -> list[asyncio.Task[Sequence[int]]]:
    """Hand batches in while another is under way, so that all of them wait together."""
    first = asyncio.ensure_future(desk.run([0]))
    await counter.has_begun.wait()
    calls = [asyncio.ensure_future(desk.run(batch)) for batch in batches]
    await asyncio.sleep(0)
    counter.gate.set()
    await first
    return calls


async def test_a_call_that_is_alone_leaves_at_once(desk: Batcher[int, int], counter: Counter) -> None:
    counter.gate.set()
    assert await desk.run([1, 2]) == [2, 4]
    assert counter.batches == [[1, 2]]


async def test_calls_that_wait_are_served_together_and_answered_apart(
    desk: Batcher[int, int], counter: Counter
) -> None:
    calls = await crowd(desk, counter, [1], [2, 3], [4])
    assert await asyncio.gather(*calls) == [[2], [4, 6], [8]]
    assert counter.batches == [[0], [1, 2, 3, 4]]


async def test_calls_that_share_nothing_are_not_served_together(desk: Batcher[int, int], counter: Counter) -> None:
    counter.gate.set()
    answers = await asyncio.gather(desk.run([1], "a"), desk.run([2], "b"), desk.run([3], "b"))
    assert list(answers) == [[2], [4], [6]]
    assert counter.batches == [[1], [2, 3]]


async def test_no_batch_grows_without_end(desk: Batcher[int, int], counter: Counter) -> None:
    calls = await crowd(desk, counter, *([number] for number in range(20, 40)))
    await asyncio.gather(*calls)
    assert [len(batch) for batch in counter.batches] == [1, 10, 10]


class Looked(list[int]):
    """A batch that counts how often it is asked for its size."""

    looks = 0

    def __len__(self) -> int:
        Looked.looks += 1
        return super().__len__()


async def test_to_fill_a_batch_takes_a_look_at_no_more_than_fit_in_it(
    desk: Batcher[int, int], counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a hundred thousand who wait would be counted again for each thousand that are served."""
    monkeypatch.setattr(Looked, "looks", 0)
    calls = await crowd(desk, counter, *(Looked([number]) for number in range(1000, 2000)))
    await asyncio.gather(*calls)
    assert len(counter.batches) == 101
    assert Looked.looks < 10_000


async def test_calls_of_any_size_fill_batches_in_their_order(desk: Batcher[int, int], counter: Counter) -> None:
    batches = [range(20, 23), range(30, 37), range(40, 41), range(50, 65), range(70, 72)]
    calls = await crowd(desk, counter, *batches)
    assert await asyncio.gather(*calls) == [[2 * number for number in batch] for batch in batches]
    first, second, third, fourth, fifth = map(list, batches)
    assert counter.batches == [[0], first + second, third, fourth, fifth]


async def test_a_call_that_shares_nothing_with_the_one_before_opens_a_batch_of_its_own(
    desk: Batcher[int, int], counter: Counter
) -> None:
    counter.gate.set()
    calls = [desk.run([number], sharing) for number, sharing in enumerate("aabaa")]
    assert list(await asyncio.gather(*calls)) == [[0], [2], [4], [6], [8]]
    assert counter.batches == [[0, 1], [2], [3, 4]]


async def test_a_cancelled_call_takes_no_items_of_other_calls_along(desk: Batcher[int, int], counter: Counter) -> None:
    first = asyncio.ensure_future(desk.run([0]))
    await counter.has_begun.wait()
    calls = [asyncio.ensure_future(desk.run(batch)) for batch in ([1, 2], [3], [4, 5, 6], [7])]
    calls[1].cancel()
    calls[2].cancel()
    await asyncio.sleep(0)
    counter.gate.set()
    assert [await first, await calls[0], await calls[3]] == [[0], [2, 4], [14]]
    assert counter.batches == [[0], [1, 2, 7]]


async def test_a_bad_call_hurts_nobody_beside_it(desk: Batcher[int, int], counter: Counter) -> None:
    calls = await crowd(desk, counter, [1], [13], [3])
    first, bad, last = await asyncio.gather(*calls, return_exceptions=True)
    assert (first, last) == ([2], [6])
    assert isinstance(bad, ValueError)


async def test_nobody_waits_for_ever_if_the_work_is_called_off_while_each_is_served_by_itself() -> None:
    """Calls behind the one under way never got an answer: a blocked thread would hang."""
    has_begun = asyncio.Event()

    async def serve(numbers: Sequence[int]) -> Sequence[int]:
        if len(numbers) > 1:
            raise ValueError("one of these")
        has_begun.set()
        return [await asyncio.Future()]

    desk: Batcher[int, int] = Batcher(serve)
    calls = [asyncio.ensure_future(desk.run([number])) for number in range(3)]
    await has_begun.wait()
    assert desk._work is not None
    desk._work.cancel()
    async with asyncio.timeout(5):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3


async def test_everybody_is_told_that_the_store_is_away_and_nothing_is_tried_again(
    desk: Batcher[int, int], counter: Counter
) -> None:
    """Whether it happened is unknown: to do it twice is the caller's decision."""
    calls = await crowd(desk, counter, [1], [404])
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable, StoreUnavailable]
    assert counter.batches == [[0], [1, 404]]


async def test_a_call_cancelled_before_its_batch_begins_is_left_out(desk: Batcher[int, int], counter: Counter) -> None:
    first = asyncio.ensure_future(desk.run([0]))
    await counter.has_begun.wait()
    gone, stays = (asyncio.ensure_future(desk.run([number])) for number in (1, 2))
    await asyncio.sleep(0)
    gone.cancel()
    counter.gate.set()
    assert [await first, await stays] == [[0], [4]]
    assert counter.batches == [[0], [2]]


async def test_a_call_cancelled_midway_does_not_stop_the_others(desk: Batcher[int, int], counter: Counter) -> None:
    first = asyncio.ensure_future(desk.run([1]))
    await counter.has_begun.wait()
    first.cancel()
    second = asyncio.ensure_future(desk.run([2]))
    counter.gate.set()
    assert await second == [4]


async def test_what_was_handed_in_before_the_close_is_finished(desk: Batcher[int, int], counter: Counter) -> None:
    call = asyncio.ensure_future(desk.run([1]))
    await asyncio.sleep(0)
    counter.gate.set()
    await desk.close()
    assert await call == [2]
    with pytest.raises(StoreUnavailable):
        await desk.run([2])


async def test_nothing_is_served_for_an_empty_batch(desk: Batcher[int, int], counter: Counter) -> None:
    assert await desk.run([]) == []
    assert counter.batches == []


async def test_a_call_without_items_shifts_no_other_answers(desk: Batcher[int, int], counter: Counter) -> None:
    """As many answers as calls were taken for one each: the second had what was the third's."""
    first = desk.hand_in([0])
    await counter.has_begun.wait()
    calls = [desk.hand_in(batch) for batch in ([], [1], [2, 3])]
    counter.gate.set()
    assert await asyncio.gather(first, *calls) == [[0], [], [2], [4, 6]]
    assert counter.batches == [[0], [1, 2, 3]]


@pytest.fixture
def prompt(counter: Counter) -> Batcher[int, int]:
    return Batcher(counter, prompt=True)


async def test_a_prompt_batcher_runs_a_lone_call_in_its_own_task(prompt: Batcher[int, int], counter: Counter) -> None:
    counter.gate.set()
    before = asyncio.all_tasks()
    assert await prompt.run([1]) == [2]
    assert asyncio.all_tasks() == before, "no task was made for it"


async def test_calls_that_come_meanwhile_are_run_together_afterwards(
    prompt: Batcher[int, int], counter: Counter
) -> None:
    calls = await crowd(prompt, counter, [1], [2])
    assert await asyncio.gather(*calls) == [[2], [4]]
    assert counter.batches == [[0], [1, 2]]


async def test_in_a_crowd_nobody_goes_alone(prompt: Batcher[int, int], counter: Counter) -> None:
    await asyncio.gather(*await crowd(prompt, counter, [1], [2]))
    counter.batches.clear()
    await asyncio.gather(*(prompt.run([number]) for number in range(5)))
    assert counter.batches == [[0, 1, 2, 3, 4]]


async def test_two_calls_that_may_run_do_not_run_at_once(prompt: Batcher[int, int], counter: Counter) -> None:
    """Both were alone when they called, and awaited the answer later."""
    first, second = prompt.run([1]), prompt.run([2])
    calls = [asyncio.ensure_future(call) for call in (first, second)]
    await counter.has_begun.wait()
    await asyncio.sleep(0)
    assert counter.batches == [[1]]
    counter.gate.set()
    assert await asyncio.gather(*calls) == [[2], [4]]


async def test_a_call_that_may_run_does_not_run_after_the_end(prompt: Batcher[int, int], counter: Counter) -> None:
    call = prompt.run([1])
    await prompt.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await call
    assert counter.batches == []


async def test_a_call_cancelled_in_a_prompt_batcher_holds_up_no_other(
    prompt: Batcher[int, int], counter: Counter
) -> None:
    leaving = asyncio.ensure_future(prompt.run([0]))
    await counter.has_begun.wait()
    waiting = asyncio.ensure_future(prompt.run([1]))
    await asyncio.sleep(0)
    leaving.cancel()
    counter.gate.set()
    assert await waiting == [2]
    assert leaving.cancelled()


async def test_a_prompt_batcher_closes_after_all_calls(prompt: Batcher[int, int], counter: Counter) -> None:
    calls = [asyncio.ensure_future(prompt.run([number])) for number in range(3)]
    await counter.has_begun.wait()
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(prompt.close())
    await asyncio.sleep(0)
    assert not closing.done()
    counter.gate.set()
    await closing
    assert await asyncio.gather(*calls) == [[0], [2], [4]]
    with pytest.raises(StoreUnavailable, match="closed"):
        await prompt.run([1])

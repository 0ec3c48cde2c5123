from __future__ import annotations

import asyncio
from collections.abc import Sequence

from conformance.coordination.adapters import LASTING
from conformance.coordination.conftest import Eventually
from rota.core.cluster import Lock
from rota.ports.coordinator import Coordinator

LONG = LASTING * 100


async def test_a_lock_has_one_holder(ours: Coordinator, theirs: Coordinator) -> None:
    assert await ours.lock("report", "a", LONG) is not None
    assert await theirs.lock("report", "b", LONG) is None
    assert await theirs.lock("another", "b", LONG) is not None


async def test_a_holder_that_asks_again_keeps_lock_and_fence(ours: Coordinator) -> None:
    first = await ours.lock("report", "a", LONG)
    assert first is not None
    assert (first.name, first.holder) == ("report", "a")
    again = await ours.lock("report", "a", LONG)
    assert again is not None
    assert (again.fence, again.since) == (first.fence, first.since)
    assert again.until >= first.until


async def test_a_lock_is_renewed_through_another_process_and_for_another_time(
    ours: Coordinator, theirs: Coordinator, eventually: Eventually[Lock | None]
) -> None:
    """As a holder does that reaches several API processes over HTTP."""
    first = await ours.lock("report", "a", LASTING)
    again = await theirs.lock("report", "a", LONG)
    assert first is not None
    assert again is not None
    assert again.fence == first.fence
    other = await ours.lock("other", "a", LASTING)
    assert other is not None
    await eventually(lambda: theirs.lock("other", "b", LONG), lambda lock: lock is not None)
    assert await theirs.lock("report", "b", LONG) is None, "it lasts as long as it was last asked for"


async def test_held_locks_are_listed_by_name(
    ours: Coordinator, theirs: Coordinator, eventually: Eventually[Sequence[Lock]]
) -> None:
    assert await ours.locks() == []
    await ours.lock("b/c d", "ä 100%", LONG)
    await ours.lock("a", "x", LASTING)
    await ours.lock("c", "x", LONG)
    await ours.unlock("c", "x")
    first, second = await theirs.locks()
    assert [(one.name, one.holder) for one in (first, second)] == [("a", "x"), ("b/c d", "ä 100%")]
    assert first.since < first.until < second.until
    left = await eventually(theirs.locks, lambda locks: len(locks) < 2)
    assert [one.name for one in left] == ["b/c d"], "a lock that lapsed is not listed"


async def test_a_lock_of_any_holder_can_be_released(ours: Coordinator, theirs: Coordinator) -> None:
    first = await ours.lock("report", "a", LONG)
    assert first is not None
    assert await theirs.unlock("report", "b") is None
    released = await theirs.unlock("report", None)
    assert released is not None
    assert (released.holder, released.fence) == ("a", first.fence)
    assert await theirs.unlock("report", None) is None
    again = await ours.lock("report", "a", LONG)
    assert again is not None
    assert again.fence > first.fence, "its former holder learns that it lost the lock"


async def test_of_many_holders_at_once_one_gets_the_lock(ours: Coordinator, theirs: Coordinator) -> None:
    asked = [(ours if number % 2 else theirs).lock("report", str(number), LONG) for number in range(10)]
    assert len([lock for lock in await asyncio.gather(*asked) if lock is not None]) == 1


async def test_a_lock_that_was_given_back_is_free_at_once_with_a_greater_fence(
    ours: Coordinator, theirs: Coordinator
) -> None:
    first = await ours.lock("report", "a", LONG)
    await theirs.unlock("report", "b")
    assert await theirs.lock("report", "b", LONG) is None, "only the holder gives it back"
    await ours.unlock("report", "a")
    second = await theirs.lock("report", "b", LONG)
    assert first is not None
    assert second is not None
    assert second.fence > first.fence


async def test_a_lock_that_nobody_keeps_runs_out_and_its_former_holder_has_the_smaller_fence(
    ours: Coordinator, theirs: Coordinator, eventually: Eventually[Lock | None]
) -> None:
    """The former holder was stopped and still assumes that it has the lock: the fence refuses it."""
    first = await ours.lock("report", "a", LASTING)
    second = await eventually(lambda: theirs.lock("report", "b", LONG), lambda lock: lock is not None)
    assert first is not None
    assert second is not None
    assert second.fence > first.fence
    assert await ours.lock("report", "a", LONG) is None


async def test_a_lock_and_a_lead_of_one_name_have_nothing_to_do_with_each_other(
    ours: Coordinator, theirs: Coordinator
) -> None:
    await ours.lock("scheduler", "a", LONG)
    assert (await theirs.campaign("scheduler", "b", LONG)).holder == "b"

from __future__ import annotations

from conformance.coordination.adapters import LASTING
from conformance.coordination.conftest import Eventually
from rota.core.cluster import Lock
from rota.ports.coordinator import Coordinator

LONG = LASTING * 100


async def test_a_lock_has_one_holder(ours: Coordinator, theirs: Coordinator) -> None:
    assert await ours.lock("report", "a", LONG) is not None
    assert await theirs.lock("report", "b", LONG) is None
    assert await theirs.lock("another", "b", LONG) is not None


async def test_who_asks_again_keeps_lock_and_fence(ours: Coordinator) -> None:
    first = await ours.lock("report", "a", LONG)
    assert first is not None
    assert (first.name, first.holder) == ("report", "a")
    assert await ours.lock("report", "a", LONG) == first


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
    """The former holder, stopped all the while, still believes in its lock: the fence is what keeps it out."""
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

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from conformance.coordination.adapters import LASTING, Place
from conformance.coordination.conftest import Eventually
from rota.core.cluster import Leadership
from rota.ports.coordinator import Coordinator

LONG = LASTING * 100


def lead_of(leadership: Leadership | None) -> tuple[str, int] | None:
    return None if leadership is None else (leadership.holder, leadership.term)


async def test_the_first_to_ask_leads_and_all_are_told_so(ours: Coordinator, theirs: Coordinator) -> None:
    first = await ours.campaign("scheduler", "a", LONG)
    assert (first.name, first.holder) == ("scheduler", "a")
    assert lead_of(await theirs.campaign("scheduler", "b", LONG)) == lead_of(first)
    assert lead_of(await theirs.leader("scheduler")) == lead_of(first)


async def test_of_many_who_ask_at_once_one_leads(place: Place) -> None:
    several = [await place.open() for _ in range(4)]
    asked = [one.campaign("scheduler", f"h{number}", LONG) for number, one in enumerate((*several, *several))]
    assert len({lead_of(answer) for answer in await asyncio.gather(*asked)}) == 1


async def test_a_leader_keeps_its_lead_without_a_new_term(ours: Coordinator, place: Place) -> None:
    first = await ours.campaign("scheduler", "a", LASTING)
    # For twice as long as it lasts when nobody keeps it.
    for _ in range(8):
        await place.pass_time(LASTING.total_seconds() / 4)
        assert lead_of(await ours.campaign("scheduler", "a", LASTING)) == lead_of(first)


async def test_a_lead_that_nobody_keeps_runs_out_and_the_next_has_a_greater_term(
    ours: Coordinator, theirs: Coordinator, eventually: Eventually[Leadership]
) -> None:
    first = await ours.campaign("scheduler", "a", LASTING)
    taken = await eventually(
        lambda: theirs.campaign("scheduler", "b", LONG), lambda leadership: leadership.holder == "b"
    )
    assert taken.term > first.term
    assert lead_of(await ours.campaign("scheduler", "a", LONG)) == lead_of(taken), "who lost the lead learns it"


async def test_a_lead_lasts_at_least_as_long_as_was_asked_for(
    ours: Coordinator, theirs: Coordinator, place: Place
) -> None:
    begun = datetime.now(UTC)
    await ours.campaign("scheduler", "a", LASTING)
    await place.pass_time(LASTING.total_seconds() * 0.5)
    holder = (await theirs.campaign("scheduler", "b", LONG)).holder
    # On a machine so busy that the time is over anyway, nothing can be told.
    assert holder == "a" or datetime.now(UTC) - begun >= LASTING


async def test_nobody_leads_what_was_never_led_nor_what_has_run_out(
    ours: Coordinator, theirs: Coordinator, eventually: Eventually[Leadership | None]
) -> None:
    assert await ours.leader("scheduler") is None
    await ours.campaign("scheduler", "a", LASTING)
    await eventually(lambda: theirs.leader("scheduler"), lambda leadership: leadership is None)


async def test_a_lead_that_was_given_up_is_free_at_once_and_the_term_goes_on_growing(
    ours: Coordinator, theirs: Coordinator
) -> None:
    first = await ours.campaign("scheduler", "a", LONG)
    await ours.resign("scheduler", "a")
    assert await theirs.leader("scheduler") is None
    assert (await theirs.campaign("scheduler", "b", LONG)).term > first.term


async def test_a_process_that_resigned_may_lead_again(ours: Coordinator) -> None:
    await ours.campaign("scheduler", "a", LONG)
    await ours.resign("scheduler", "a")
    assert (await ours.campaign("scheduler", "a", LONG)).holder == "a"


async def test_only_the_holder_can_resign(ours: Coordinator, theirs: Coordinator) -> None:
    first = await ours.campaign("scheduler", "a", LONG)
    await theirs.resign("scheduler", "b")
    assert lead_of(await ours.leader("scheduler")) == lead_of(first)


async def test_a_former_leader_that_resigns_late_does_not_end_its_successors_lead(
    ours: Coordinator, theirs: Coordinator, eventually: Eventually[Leadership]
) -> None:
    await ours.campaign("scheduler", "a", LASTING)
    taken = await eventually(lambda: theirs.campaign("scheduler", "b", LONG), lambda one: one.holder == "b")
    await ours.resign("scheduler", "a")
    assert lead_of(await theirs.leader("scheduler")) == lead_of(taken)


async def test_a_holder_that_forgot_everything_has_its_lead_back_at_once(place: Place) -> None:
    """A process that lost its connection, or the answer, is the same holder without its former state."""
    first = await (await place.open()).campaign("scheduler", "a", LONG)
    assert lead_of(await (await place.open()).campaign("scheduler", "a", LONG)) == lead_of(first)


async def test_leads_of_different_names_are_independent(ours: Coordinator) -> None:
    await ours.campaign("scheduler", "a", LONG)
    assert (await ours.campaign("janitor", "b", LONG)).holder == "b"

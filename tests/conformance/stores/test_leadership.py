from __future__ import annotations

from builders import BASE, MICROSECOND, SECOND, at
from rota.core.cluster import Leadership
from rota.ports.store import Store

TEN = 10 * SECOND


async def test_the_first_to_ask_leads(store: Store) -> None:
    assert await store.lead("upkeep", "a", TEN, now=BASE) == Leadership("upkeep", "a", 1, at(10))


async def test_nobody_else_leads_while_a_lead_lasts(store: Store) -> None:
    first = await store.lead("upkeep", "a", TEN, now=BASE)
    assert await store.lead("upkeep", "b", TEN, now=at(10) - MICROSECOND) == first


async def test_a_leader_keeps_its_lead_without_a_new_term(store: Store) -> None:
    await store.lead("upkeep", "a", TEN, now=BASE)
    assert await store.lead("upkeep", "a", TEN, now=at(5)) == Leadership("upkeep", "a", 1, at(15))


async def test_a_lead_that_has_run_out_can_be_taken(store: Store) -> None:
    await store.lead("upkeep", "a", TEN, now=BASE)
    assert await store.lead("upkeep", "b", TEN, now=at(10)) == Leadership("upkeep", "b", 2, at(20))


async def test_a_former_leader_does_not_keep_the_lead(store: Store) -> None:
    await store.lead("upkeep", "a", TEN, now=BASE)
    taken = await store.lead("upkeep", "b", TEN, now=at(10))
    assert await store.lead("upkeep", "a", TEN, now=at(11)) == taken


async def test_a_lead_that_was_given_up_is_free_at_once(store: Store) -> None:
    await store.lead("upkeep", "a", TEN, now=BASE)
    await store.resign("upkeep", "a")
    assert (await store.lead("upkeep", "b", TEN, now=at(1))).holder == "b"


async def test_the_term_goes_on_counting_after_a_resignation(store: Store) -> None:
    """A term that starts again at one would let two leaders hold the same."""
    await store.lead("upkeep", "a", TEN, now=BASE)
    await store.resign("upkeep", "a")
    assert (await store.lead("upkeep", "b", TEN, now=at(1))).term == 2


async def test_a_process_that_resigned_may_lead_again(store: Store) -> None:
    await store.lead("upkeep", "a", TEN, now=BASE)
    await store.resign("upkeep", "a")
    assert await store.lead("upkeep", "a", TEN, now=at(1)) == Leadership("upkeep", "a", 1, at(11))


async def test_only_the_holder_can_resign(store: Store) -> None:
    first = await store.lead("upkeep", "a", TEN, now=BASE)
    await store.resign("upkeep", "b")
    assert await store.lead("upkeep", "b", TEN, now=at(1)) == first


async def test_a_former_leader_that_resigns_late_does_not_end_its_successors_lead(store: Store) -> None:
    await store.lead("upkeep", "a", TEN, now=BASE)
    taken = await store.lead("upkeep", "b", TEN, now=at(10))
    await store.resign("upkeep", "a")
    assert await store.lead("upkeep", "c", TEN, now=at(11)) == taken


async def test_resigning_from_what_was_never_led_does_nothing(store: Store) -> None:
    await store.resign("upkeep", "a")
    assert (await store.lead("upkeep", "b", TEN, now=BASE)).term == 1


async def test_leads_of_different_names_are_independent(store: Store) -> None:
    await store.lead("upkeep", "a", TEN, now=BASE)
    assert (await store.lead("cron", "b", TEN, now=BASE)).holder == "b"


async def test_the_term_grows_with_every_change_of_leader(store: Store) -> None:
    terms = [
        (await store.lead("upkeep", holder, TEN, now=at(20 * turn))).term
        for turn, holder in enumerate(("a", "b", "b", "a", "c"))
    ]
    assert terms == [1, 2, 2, 3, 4]


async def test_the_leader_can_be_read_without_taking_part(store: Store) -> None:
    first = await store.lead("upkeep", "a", TEN, now=BASE)
    assert await store.leader("upkeep", now=at(10) - MICROSECOND) == first
    assert (await store.lead("upkeep", "b", TEN, now=at(10))).term == 2


async def test_nobody_leads_what_was_never_led_nor_what_has_run_out_or_was_given_up(store: Store) -> None:
    assert await store.leader("upkeep", now=BASE) is None
    await store.lead("upkeep", "a", TEN, now=BASE)
    assert await store.leader("upkeep", now=at(10)) is None
    await store.lead("upkeep", "a", TEN, now=at(10))
    await store.resign("upkeep", "a")
    assert await store.leader("upkeep", now=at(11)) is None

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import BASE, HOUR, MICROSECOND, MINUTE, at, entry, fresh_id, fresh_schedule_id, schedule
from conformance.stores.transitions import snapshot
from rota.core.schedule import CatchUp, Fate, Occurrence, Schedule, plan
from rota.core.submission import Template
from rota.ports.store import Store


async def stored(store: Store, wanted: Schedule) -> Schedule:
    (found,) = await store.schedules([wanted.id])
    return found


async def test_a_new_schedule_is_written_as_version_one(store: Store) -> None:
    new = schedule()
    assert await store.put_schedules([new], now=at(1)) == [new.id]
    assert await stored(store, new) == replace(new, version=1, created_at=at(1), updated_at=at(1))


async def test_a_schedule_is_replaced_while_its_version_holds(store: Store) -> None:
    new = schedule()
    await store.put_schedules([new], now=BASE)
    changed = replace(await stored(store, new), rule="@every 5m", name="weekly", template=Template("other"))
    assert await store.put_schedules([changed], now=at(9)) == [new.id]
    assert await stored(store, new) == replace(changed, version=2, updated_at=at(9))


async def test_a_schedule_that_was_changed_meanwhile_is_not_overwritten(store: Store) -> None:
    new = schedule()
    await store.put_schedules([new], now=BASE)
    first = await stored(store, new)
    await store.put_schedules([replace(first, rule="@every 5m")], now=BASE)
    before = await snapshot(store)
    assert await store.put_schedules([replace(first, rule="@every 9m")], entry=entry(), now=at(1)) == []
    assert await snapshot(store) == before


async def test_a_schedule_cannot_be_created_twice(store: Store) -> None:
    new = schedule()
    await store.put_schedules([new], now=BASE)
    assert await store.put_schedules([replace(new, name="other")], now=BASE) == []


async def test_a_schedule_that_does_not_exist_cannot_be_replaced(store: Store) -> None:
    assert await store.put_schedules([schedule(version=1)], now=BASE) == []
    assert await store.schedules() == []


async def test_a_name_that_is_taken_is_refused_to_a_new_schedule(store: Store) -> None:
    first, second = schedule("nightly"), schedule("nightly")
    await store.put_schedules([first], now=BASE)
    before = await snapshot(store)
    assert await store.put_schedules([second], now=BASE) == []
    assert await snapshot(store) == before


async def test_a_name_that_comes_twice_in_a_batch_goes_to_the_first(store: Store) -> None:
    first, second, other = schedule("nightly"), schedule("nightly"), schedule("other")
    assert await store.put_schedules([first, second, other], now=BASE) == [first.id, other.id]


async def test_a_schedule_cannot_take_the_name_of_another(store: Store) -> None:
    first, second = schedule("first"), schedule("second")
    await store.put_schedules([first, second], now=BASE)
    renamed = replace(await stored(store, second), name="first")
    assert await store.put_schedules([renamed], now=BASE) == []
    assert (await stored(store, second)).name == "second"


async def test_a_name_is_free_again_once_its_schedule_is_dropped_or_renamed(store: Store) -> None:
    first, second = schedule("first"), schedule("second")
    await store.put_schedules([first, second], now=BASE)
    await store.drop_schedules([first.id], now=BASE)
    await store.put_schedules([replace(await stored(store, second), name="third")], now=BASE)
    heirs = [schedule("first"), schedule("second")]
    assert await store.put_schedules(heirs, now=BASE) == [heir.id for heir in heirs]


async def test_an_entry_is_written_when_any_schedule_was(store: Store) -> None:
    taken = schedule("taken")
    await store.put_schedules([taken], now=BASE)
    await store.put_schedules([schedule("taken"), schedule("new")], entry=entry("put"), now=BASE)
    assert [written.action for written in await store.ledger()] == ["put"]


async def test_all_schedules_come_by_name(store: Store) -> None:
    await store.put_schedules([schedule(name) for name in ("c", "a", "b")], now=BASE)
    assert [found.name for found in await store.schedules()] == ["a", "b", "c"]


async def test_schedules_can_be_read_page_by_page(store: Store) -> None:
    await store.put_schedules([schedule(f"s{number}") for number in range(5)], now=BASE)
    read: list[str] = []
    while page := await store.schedules(after=read[-1] if read else "", limit=2):
        read.extend(found.name for found in page)
    assert read == ["s0", "s1", "s2", "s3", "s4"]


async def test_schedules_are_found_by_name_and_unknown_ones_are_absent(store: Store) -> None:
    await store.put_schedules([schedule(name) for name in ("a", "b", "c")], now=BASE)
    assert {found.name for found in await store.schedules(names=["c", "a", "x"])} == {"a", "c"}


async def test_schedules_are_found_by_id_and_unknown_ones_are_absent(store: Store) -> None:
    first, second = schedule("a"), schedule("b")
    await store.put_schedules([first, second], now=BASE)
    assert [found.id for found in await store.schedules([second.id, fresh_schedule_id()])] == [second.id]


async def test_a_schedule_is_due_from_its_fire_time_on(store: Store) -> None:
    new = schedule(next_fire_at=at(60))
    await store.put_schedules([new], now=BASE)
    assert await store.due_schedules(10, now=at(60) - MICROSECOND) == []
    assert [due.id for due in await store.due_schedules(10, now=at(60))] == [new.id]


async def test_the_earliest_due_schedules_come_first_and_no_more_than_the_limit(store: Store) -> None:
    late, early, middle = (
        schedule("x", next_fire_at=at(3)),
        schedule("y", next_fire_at=at(1)),
        schedule("z", next_fire_at=at(2)),
    )
    await store.put_schedules([late, early, middle], now=BASE)
    assert [due.id for due in await store.due_schedules(2, now=at(9))] == [early.id, middle.id]


async def test_a_paused_schedule_is_not_due(store: Store) -> None:
    new = schedule(next_fire_at=at(1), paused_at=BASE, pause_reason="deploy")
    await store.put_schedules([new], now=BASE)
    assert await store.due_schedules(10, now=at(9)) == []


async def test_a_schedule_without_a_next_fire_time_is_not_due(store: Store) -> None:
    await store.put_schedules([schedule(next_fire_at=None)], now=BASE)
    assert await store.due_schedules(10, now=BASE + 1000 * HOUR) == []


async def test_a_dropped_schedule_is_gone_with_its_record_and_its_jobs_stay(store: Store) -> None:
    new = await _fired(store)
    (job_id,) = [occurrence.job_id for occurrence in await store.occurrences(new.id)]
    assert job_id is not None
    assert await store.drop_schedules([new.id, fresh_schedule_id()], entry=entry("drop"), now=BASE) == [new.id]
    assert await store.schedules() == []
    assert await store.occurrences(new.id) == []
    assert [job.schedule_id for job in await store.get([job_id])] == [new.id]
    assert [written.action for written in await store.ledger()] == ["drop"]


async def test_dropping_what_is_not_there_writes_no_entry(store: Store) -> None:
    assert await store.drop_schedules([fresh_schedule_id()], entry=entry("drop"), now=BASE) == []
    assert await store.ledger() == []


async def test_fire_times_stay_recorded_when_a_schedule_is_replaced(store: Store) -> None:
    new = await _fired(store)
    before = await store.occurrences(new.id)
    await store.put_schedules([replace(await stored(store, new), rule="@every 5m")], now=BASE)
    assert await store.occurrences(new.id) == before
    assert len(before) == 1


async def test_what_has_fired_last_is_not_overwritten_by_an_edit(store: Store) -> None:
    """The editor read the schedule before it fired; only `fire` records what has fired."""
    new = schedule()
    await store.put_schedules([new], now=BASE)
    read = await stored(store, new)
    firing = plan(read, at(60), previous_is_active=False, fresh_id=fresh_id)
    await store.fire([firing], now=at(60))
    fired = await stored(store, new)
    await store.put_schedules([replace(read, pause_reason="edited")], now=at(61))
    edited = await stored(store, new)
    assert (edited.last_fire_at, edited.last_job_id) == (fired.last_fire_at, fired.last_job_id)
    assert edited.last_job_id is not None


async def test_occurrences_come_newest_first_and_page_by_page(store: Store) -> None:
    new = schedule(catch_up=CatchUp.ALL, catch_up_limit=5)
    await store.put_schedules([new], now=BASE)
    read_plan = await stored(store, new)
    await store.fire([plan(read_plan, BASE + 5 * MINUTE, previous_is_active=False, fresh_id=fresh_id)], now=BASE)
    read: list[Occurrence] = []
    while page := await store.occurrences(new.id, before=read[-1].fire_time if read else None, limit=2):
        read.extend(page)
    times = [occurrence.fire_time for occurrence in read]
    assert len(times) == 5
    assert times == sorted(times, reverse=True)
    assert {occurrence.fate for occurrence in read} == {Fate.FIRED}


@pytest.mark.parametrize("name", ["", " ", "a'b", "\u4e2d\u6587", "\U0001f600", "%", "_"])
async def test_a_schedule_may_have_any_name(store: Store, name: str) -> None:
    await store.put_schedules([schedule(name), schedule("plain")], now=BASE)
    assert [found.name for found in await store.schedules(names=[name])] == [name]


async def _fired(store: Store) -> Schedule:
    new = schedule()
    await store.put_schedules([new], now=BASE)
    firing = plan(await stored(store, new), at(60), previous_is_active=False, fresh_id=fresh_id)
    await store.fire([firing], now=at(60))
    return new

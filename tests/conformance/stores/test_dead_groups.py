from __future__ import annotations

from builders import BASE, HOUR, at, entry, error, failure, new_job
from conformance.stores.transitions import begin, call_off, complete, end, look
from rota.core.decision import retry
from rota.core.ids import JobId
from rota.core.outcome import Lost
from rota.core.submission import Delivery
from rota.ports.store import DeadNote, Store


async def test_nobody_has_died_in_an_empty_store(store: Store) -> None:
    assert await store.dead_groups(10) == []


async def test_deaths_of_one_cause_are_one_group(store: Store) -> None:
    ids = [await _death(store, f"port {number} refused", second=number) for number in range(3)]
    (group,) = await store.dead_groups(10)
    assert (group.type, group.fingerprint, group.count) == ("mail", error("port 7 refused").fingerprint("mail"), 3)
    assert (group.first_at, group.last_at) == (at(0), at(2))
    assert group.example in ids


async def test_causes_and_types_are_told_apart_and_the_most_deaths_come_first(store: Store) -> None:
    for message, kind, deaths in (("rare", "mail", 1), ("often", "mail", 3), ("often", "report", 2)):
        for _ in range(deaths):
            await _death(store, message, kind)
    assert [(group.type, group.count) for group in await store.dead_groups(10)] == [
        ("mail", 3),
        ("report", 2),
        ("mail", 1),
    ]


async def test_no_more_groups_than_the_limit_are_given(store: Store) -> None:
    for message in ("a", "b", "b", "c", "c", "c"):
        await _death(store, message)
    assert [group.count for group in await store.dead_groups(2)] == [3, 2]


async def test_deaths_without_an_error_are_a_group_without_a_fingerprint(store: Store) -> None:
    job = new_job(delivery=Delivery.AT_MOST_ONCE)
    await store.insert([job], now=BASE)
    await end(store, await begin(store, job), Lost())
    (group,) = await store.dead_groups(10)
    assert (group.fingerprint, group.count, group.example) == (None, 1, job.id)


async def test_only_the_dead_are_counted(store: Store) -> None:
    trying, done, gone = new_job(), new_job(), new_job()
    await store.insert([trying, done, gone], now=BASE)
    await end(store, await begin(store, trying), failure())
    await complete(store, done)
    await call_off(store, gone)
    revived = await _death(store, "once")
    await store.settle([retry(await look(store, revived), BASE)], now=BASE)
    assert await store.dead_groups(10) == []


async def test_deaths_are_counted_by_cause_and_step_of_time(store: Store) -> None:
    for second in (-7200, 10, 20, 3600, 3599 + 7200):
        await _death(store, "closed", second=second)
    await _death(store, "full", "report", second=7200)
    by = {kind: error(text).fingerprint(kind) for kind, text in (("mail", "closed"), ("report", "full"))}
    counts = {(one.type, one.fingerprint, one.step): one.count for one in await store.dead_trend(BASE, HOUR)}
    assert counts == {
        ("mail", by["mail"], 0): 2,
        ("mail", by["mail"], 1): 1,
        ("mail", by["mail"], 2): 1,
        ("report", by["report"], 2): 1,
    }


async def test_a_death_at_the_first_moment_counts_and_a_revived_job_does_not(store: Store) -> None:
    await _death(store, "closed")
    revived = await _death(store, "closed", second=1)
    await store.settle([retry(await look(store, revived), BASE)], now=at(2))
    assert [(one.step, one.count) for one in await store.dead_trend(BASE, HOUR)] == [(0, 1)]


async def test_deaths_without_an_error_have_a_trend_too(store: Store) -> None:
    job = new_job(delivery=Delivery.AT_MOST_ONCE)
    await store.insert([job], now=BASE)
    await end(store, await begin(store, job), Lost())
    (count,) = await store.dead_trend(BASE - HOUR, HOUR)
    assert (count.fingerprint, count.step, count.count) == (None, 1, 1)


async def test_the_last_note_on_a_cause_counts(store: Store) -> None:
    assert await store.put_dead_note(DeadNote("mail", "0af1", "first", "ann"), now=BASE)
    assert await store.put_dead_note(DeadNote("mail", "", "no error", "ann"), now=BASE)
    assert await store.put_dead_note(DeadNote("mail", "0af1", "zweite \U0001f41f\nLine", "bob"), now=at(5))
    assert list(await store.dead_notes()) == [
        DeadNote("mail", "", "no error", "ann", BASE),
        DeadNote("mail", "0af1", "zweite \U0001f41f\nLine", "bob", at(5)),
    ]


async def test_the_same_note_may_be_set_again(store: Store) -> None:
    for _ in range(2):
        assert await store.put_dead_note(DeadNote("mail", "0af1", "same", "ann"), entry=entry("set"), now=BASE)
    assert [one.action for one in await store.ledger()] == ["set", "set"]


async def test_a_note_is_removed_once(store: Store) -> None:
    await store.put_dead_note(DeadNote("mail", "0af1", "old", "ann"), now=BASE)
    assert not await store.put_dead_note(DeadNote("report", "0af1"), entry=entry("other"))
    assert await store.put_dead_note(DeadNote("mail", "0af1"), entry=entry("remove"))
    assert not await store.put_dead_note(DeadNote("mail", "0af1"), entry=entry("again"))
    assert list(await store.dead_notes()) == []
    assert [one.action for one in await store.ledger()] == ["remove"]


async def _death(store: Store, message: str, kind: str = "mail", second: int = 0) -> JobId:
    job = new_job(kind)
    await store.insert([job], now=BASE - HOUR)
    await end(store, await begin(store, job, BASE - HOUR), failure(message, permanent=True), at(second))
    return job.id

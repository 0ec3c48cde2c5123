"""The history of counts: nothing is lost, nothing counted twice, old buckets are deleted."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from builders import BASE, at
from rota.core.history import (
    MOST_LANES,
    OTHER,
    BucketLength,
    Counted,
    HistoryFlush,
    HistoryQuery,
    Tally,
)
from rota.core.queue import Lane
from rota.ports.store import Store

MAIL = Lane("default", "mail")
REPORT = Lane("slow", "report")
NOW = timedelta(0)


def tally(**counts: int) -> Tally:
    made = Tally()
    made.counts.update(counts)
    return made


def measured(*seconds: float) -> Tally:
    made = Tally()
    for one in seconds:
        made.measure("wait", one)
    return made


def flush(number: int, lanes: dict[Lane, Tally], *, writer: str = "ada", age: timedelta = NOW) -> HistoryFlush:
    return HistoryFlush(writer, number, (Counted(age, lanes),))


def minutes(*, by_lane: bool = False, step: BucketLength = BucketLength.MINUTE) -> HistoryQuery:
    return HistoryQuery(step, at(-7 * 86_400), at(7 * 86_400), by_lane=by_lane)


async def total(store: Store, name: str, step: BucketLength = BucketLength.MINUTE) -> int:
    return sum(bucket.tally.counts[name] for bucket in await store.history(minutes(step=step)))


async def test_counts_are_read_back_in_total_and_by_lane(store: Store) -> None:
    lanes = {MAIL: tally(submitted=3, started=2), REPORT: tally(submitted=1)}
    assert await store.add_history(flush(1, lanes), now=BASE)
    (whole,) = await store.history(minutes())
    assert dict(whole.tally.counts) == {"submitted": 4, "started": 2}
    assert [bucket.lane for bucket in await store.history(minutes(by_lane=True))] == [MAIL, REPORT]


async def test_counts_of_several_processes_and_flushes_add_up(store: Store) -> None:
    for number in (1, 2):
        for writer in ("ada", "bob"):
            await store.add_history(flush(number, {MAIL: tally(dead=5)}, writer=writer), now=BASE)
    assert await total(store, "dead") == 20
    assert await total(store, "dead", BucketLength.HOUR) == 20


async def test_a_repeated_flush_is_counted_once(store: Store) -> None:
    assert await store.add_history(flush(1, {MAIL: tally(lost=1)}), now=BASE)
    assert not await store.add_history(flush(1, {MAIL: tally(lost=1)}), now=BASE)
    assert await total(store, "lost") == 1


async def test_concurrent_flushes_lose_nothing(store: Store) -> None:
    flushes = [flush(1, {MAIL: tally(started=1)}, writer=f"worker-{number}") for number in range(20)]
    await asyncio.gather(*(store.add_history(one, now=BASE) for one in flushes))
    assert await total(store, "started") == 20


async def test_counts_belong_to_the_minute_in_which_they_were_counted(store: Store) -> None:
    await store.add_history(flush(1, {MAIL: tally(started=1)}, age=timedelta(minutes=3)), now=BASE)
    (bucket,) = await store.history(minutes())
    moment = BASE - timedelta(minutes=3)
    assert bucket.at == moment.replace(second=0, microsecond=0)
    (hour,) = await store.history(minutes(step=BucketLength.HOUR))
    assert hour.at == moment.replace(minute=0, second=0, microsecond=0)


async def test_a_span_is_read_from_its_start_and_before_its_end(store: Store) -> None:
    for minute in range(4):
        await store.add_history(flush(minute + 1, {MAIL: tally(started=1)}), now=at(60 * minute))
    first = (await store.history(minutes()))[0].at
    span = HistoryQuery(BucketLength.MINUTE, first + timedelta(minutes=1), first + timedelta(minutes=3))
    assert [bucket.at for bucket in await store.history(span)] == [first + timedelta(minutes=n) for n in (1, 2)]
    assert len(await store.history(span, limit=1)) == 1


async def test_histograms_are_merged_bucket_by_bucket(store: Store) -> None:
    await store.add_history(flush(1, {MAIL: measured(0.003, 0.003)}), now=BASE)
    await store.add_history(flush(2, {MAIL: measured(0.003, 40.0, 1e9)}), now=BASE)
    (bucket,) = await store.history(minutes())
    counts = bucket.tally.buckets("wait")
    assert sum(counts) == 5
    assert max(counts) == 3
    assert counts[-1] == 1


async def test_lanes_beyond_the_limit_are_counted_as_other(store: Store) -> None:
    lanes = {Lane("q", f"type {number:03}"): tally(started=1) for number in range(MOST_LANES)}
    await store.add_history(flush(1, lanes), now=BASE)
    await store.add_history(flush(2, {MAIL: tally(started=7), Lane("q", "type 000"): tally(started=1)}), now=BASE)
    by_lane = {bucket.lane: bucket.tally.counts["started"] for bucket in await store.history(minutes(by_lane=True))}
    assert len(by_lane) == MOST_LANES + 1
    assert by_lane[OTHER] == 7
    assert by_lane[Lane("q", "type 000")] == 2
    assert await total(store, "started") == MOST_LANES + 8


async def test_old_minutes_are_pruned_before_old_hours(store: Store) -> None:
    await store.add_history(flush(1, {MAIL: tally(started=1)}), now=BASE)
    await store.add_history(flush(2, {MAIL: tally(started=1)}), now=BASE + timedelta(hours=30))
    assert not await store.prune_history(100, now=BASE + timedelta(hours=47))
    assert await store.prune_history(100, now=BASE + timedelta(hours=50)) == 2
    assert await total(store, "started") == 1
    assert await total(store, "started", BucketLength.HOUR) == 2
    await store.prune_history(100, now=BASE + timedelta(days=100))
    assert await total(store, "started", BucketLength.HOUR) == 0


async def test_a_payload_schema_is_read_back_and_the_last_registration_holds(store: Store) -> None:
    await store.register_schemas({"mail": '{"type":"object"}', "report": "{}"}, now=BASE)
    await store.register_schemas({"mail": '{"title":"Ä"}'}, now=at(60))
    mail, report = await store.payload_schema("mail"), await store.payload_schema("report")
    assert mail is not None
    assert report is not None
    assert (mail.body, mail.at) == ('{"title":"Ä"}', at(60))
    assert (report.body, report.at) == ("{}", BASE)
    assert await store.payload_schema("Mail") is None, "names differ by case"
    await store.register_schemas({})


async def test_payload_schemas_are_forgotten_with_the_oldest_history(store: Store) -> None:
    await store.register_schemas({"old": "{}"}, now=BASE)
    await store.register_schemas({"new": "{}"}, now=at(86_400))
    await store.prune_history(100, now=at(90 * 86_400 + 60))
    assert await store.payload_schema("old") is None
    assert await store.payload_schema("new") is not None


async def test_concurrent_registrations_of_the_same_types_succeed(store: Store) -> None:
    forwards = {f"type-{number}": "{}" for number in range(50)}
    backwards = dict(reversed(forwards.items()))
    await asyncio.gather(*(store.register_schemas(one, now=BASE) for one in (forwards, backwards) * 5))
    assert await store.payload_schema("type-49") is not None

"""Values are read back as they were stored, field by field: a new field that a store does not keep fails here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, Field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from builders import (
    BASE,
    DAY,
    HOUR,
    MICROSECOND,
    SECOND,
    after,
    at,
    claim,
    fresh_id,
    fresh_schedule_id,
    key,
    means,
    new_job,
)
from builders import schedule as new_schedule
from conformance.stores.transitions import begin, end, look
from rota.core.decision import decide
from rota.core.job import Job
from rota.core.outcome import Failed, Succeeded
from rota.core.retry import Backoff, Growth
from rota.core.schedule import Blackout, CatchUp, Overlap, Schedule
from rota.core.settlement import JobError
from rota.core.submission import Delivery, NewJob, Template
from rota.core.unique_keys import UniqueKey, UniqueKind
from rota.ports.store import Store

BACKOFF: Final = Backoff(
    growth=Growth.LISTED,
    base=3 * SECOND,
    factor=1.5,
    cap=HOUR,
    jitter=0.25,
    delays=(SECOND, MICROSECOND),
    max_elapsed=DAY,
    budget=0.2,
    budget_window=30 * SECOND,
)
INNER: Final = Template("third", payload="[]", meta={"deep": "yes"}, backoff=BACKOFF)
TEMPLATE: Final = Template(
    type="second",
    payload='{"n": 1}',
    queue="q",
    priority=9,
    max_attempts=7,
    backoff=BACKOFF,
    delivery=Delivery.AT_MOST_ONCE,
    timeout=90 * SECOND,
    expires=HOUR,
    delay=5 * SECOND,
    concurrency_key="customer",
    tags=("a", "b"),
    meta={"k": "v"},
    on_success=INNER,
    on_failure=replace(INNER, type="fourth"),
)
JOB: Final = NewJob(
    id=fresh_id(),
    type="first",
    payload='{"to": "a@example.com"}',
    queue="q",
    priority=8,
    run_at=at(-5),
    max_attempts=9,
    backoff=BACKOFF,
    delivery=Delivery.AT_MOST_ONCE,
    timeout=30 * SECOND,
    expires_at=at(500),
    idempotency=key("k"),
    concurrency_key="customer-1",
    tags=("b", "a"),
    meta={"trace": "00-ab", "user": "olga"},
    after=(),
    on_success=TEMPLATE,
    on_failure=INNER,
    parent_id=fresh_id(),
    schedule_id=fresh_schedule_id(),
    fire_time=at(-6),
)
SCHEDULE: Final = replace(
    new_schedule(),
    name="every",
    rule="*/5 1-3 * * mon",
    template=TEMPLATE,
    zone="Europe/Berlin",
    catch_up=CatchUp.ALL,
    catch_up_limit=7,
    grace=5 * SECOND,
    overlap=Overlap.QUEUE,
    jitter=MICROSECOND,
    start_at=at(-50),
    end_at=at(5000),
    blackouts=(Blackout(HOUR, start=BASE), Blackout(DAY, rule="@daily")),
    paused_at=at(-1),
    pause_reason="holiday",
    next_fire_at=at(77),
    app="shop",
)

#: Fields of a submission that a job shows under another name, or not at all.
TRANSLATED: Final = {"idempotency", "after", "unique"}
#: Fields of a schedule that the store itself writes.
BY_THE_STORE: Final = {"created_at", "updated_at", "last_fire_at", "last_job_id", "version"}


def shown(value: object, wanted: Collection[str]) -> dict[str, object]:
    return {name: getattr(value, name) for name in wanted}


def default_of(field: Field[Any]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def names(kind: type[Any], leaving_out: Collection[str] = ()) -> list[str]:
    return [field.name for field in fields(kind) if field.name not in leaving_out]


SUBMITTED: Final = names(NewJob, TRANSLATED)
PUT: Final = names(Schedule, BY_THE_STORE)


@pytest.mark.parametrize(
    ("example", "leaving_out"),
    [(JOB, {"after", "unique"}), (TEMPLATE, set()), (SCHEDULE, BY_THE_STORE), (BACKOFF, set())],
)
def test_the_examples_differ_from_every_default(example: Any, leaving_out: set[str]) -> None:  # noqa: ANN401 - any value
    """Otherwise a store that forgets a field would be found out by none of the tests below."""
    plain = {field.name for field in fields(example) if getattr(example, field.name) == default_of(field)}
    assert plain - leaving_out == set()


async def test_a_job_shows_what_was_submitted(store: Store) -> None:
    await store.insert([JOB], now=BASE)
    assert shown(await look(store, JOB), SUBMITTED) == shown(JOB, SUBMITTED)


async def test_a_job_shows_the_default_of_what_was_left_out(store: Store) -> None:
    plain = new_job()
    await store.insert([plain], now=BASE)
    assert shown(await look(store, plain), SUBMITTED) == {**shown(plain, SUBMITTED), "run_at": BASE}


async def test_a_claimed_job_shows_what_was_submitted(store: Store) -> None:
    await store.insert([JOB], now=BASE)
    assert shown(await begin(store, JOB), SUBMITTED) == shown(JOB, SUBMITTED)


async def test_a_claim_gives_every_job_as_it_stands_also_one_that_sets_a_single_thing(store: Store) -> None:
    """A claim may leave out what nearly every job leaves out; then it must not miss the one that does not."""
    left_out = {"id", "type", "run_at", *TRANSLATED}
    single = [new_job(**{name: getattr(JOB, name)}) for name in names(NewJob, left_out)]
    single.append(new_job(idempotency=key("another")))
    single.append(new_job(unique=UniqueKey(UniqueKind.THROTTLE, "k", HOUR)))
    # Jobs of one key run one at a time.
    single = [replace(job, concurrency_key=job.concurrency_key and "another") for job in single]
    failed = new_job()
    await store.insert([new_job(), JOB, failed, *single], now=BASE)
    await end(store, await begin(store, failed), Failed(JobError("E", "again")))
    await store.promote(10, now=at(60))
    given = await store.claim(claim(queues=("default", "q")), now=at(60))
    assert len(given) == len(single) + 3
    assert {job.id: job for job in given} == {job.id: job for job in await store.get([job.id for job in given])}


async def test_a_job_shows_what_was_submitted_after_a_life_of_claims_and_settlements(store: Store) -> None:
    job = replace(JOB, delivery=Delivery.AT_LEAST_ONCE)
    lasting = [name for name in SUBMITTED if name != "run_at"]
    await store.insert([job], now=BASE)
    await end(store, await begin(store, job), Failed(JobError("E", "again")))
    await store.promote(10, now=at(60))
    await end(store, await begin(store, job, at(60)), Succeeded(), at(61))
    assert shown(await look(store, job), lasting) == shown(job, lasting)


def test_every_field_of_a_submission_is_shown_by_the_job_or_known_to_be_translated() -> None:
    assert set(names(NewJob)) - set(names(Job)) == TRANSLATED


async def test_an_idempotency_key_is_shown_as_its_name(store: Store) -> None:
    await store.insert([JOB], now=BASE)
    assert (await look(store, JOB)).idempotency_key == "k"


async def test_waits_are_shown_as_their_number(store: Store) -> None:
    parents = [new_job(), new_job()]
    child = new_job(after=after(*parents))
    await store.insert([*parents, child], now=BASE)
    assert (await look(store, child)).blockers == 2


async def test_a_follow_up_shows_what_its_template_said(store: Store) -> None:
    job = replace(JOB, id=fresh_id(), idempotency=None)
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    heir = fresh_id()
    await store.settle([decide(held, Succeeded(), means(follow_up_id=heir))], now=BASE)
    said = names(Template, {"delay", "expires"})
    assert shown(await look(store, heir), said) == shown(TEMPLATE, said)


async def test_a_new_schedule_comes_back_as_it_was(store: Store) -> None:
    await store.put_schedules([SCHEDULE], now=BASE)
    (found,) = await store.schedules([SCHEDULE.id])
    assert shown(found, PUT) == shown(SCHEDULE, PUT)


async def test_a_replaced_schedule_comes_back_as_it_was(store: Store) -> None:
    await store.put_schedules([new_schedule(id=SCHEDULE.id)], now=BASE)
    await store.put_schedules([replace(SCHEDULE, version=1)], now=BASE)
    (found,) = await store.schedules([SCHEDULE.id])
    assert shown(found, PUT) == shown(SCHEDULE, PUT)


async def test_an_error_comes_back_as_it_was(store: Store) -> None:
    wrong = JobError("OSError", "no route\n\u4e2d\u6587 \U0001f600 \0 '", "Traceback\n  File")
    job = new_job()
    await store.insert([job], now=BASE)
    ended = await end(store, await begin(store, job), Failed(wrong))
    (attempt,) = await store.attempts(job.id)
    assert (ended.error, attempt.error) == (wrong, wrong)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 3, 1, 0, 0, 0, 1, tzinfo=UTC),
    ],
    ids=str,
)
async def test_every_moment_is_kept_to_the_microsecond(store: Store, moment: datetime) -> None:
    job = new_job(run_at=moment, expires_at=moment, fire_time=moment)
    await store.insert([job], now=BASE)
    stored = await look(store, job)
    assert (stored.run_at, stored.expires_at, stored.fire_time) == (moment, moment, moment)
    assert stored.run_at.utcoffset() == timedelta(0)


@pytest.mark.parametrize("span", [MICROSECOND, timedelta(0), 36_500 * DAY, HOUR + MICROSECOND], ids=str)
async def test_every_duration_is_kept_to_the_microsecond(store: Store, span: timedelta) -> None:
    job = new_job(timeout=span, backoff=Backoff(base=span, cap=span, max_elapsed=span))
    await store.insert([job], now=BASE)
    stored = await look(store, job)
    assert (stored.timeout, stored.backoff) == (span, job.backoff)

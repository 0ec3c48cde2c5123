"""Values survive a round trip through JSON: the client reads what the server had."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from builders import BASE, HOUR, MINUTE, at, fresh_id, fresh_schedule_id, new_job
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.retry import Backoff, Growth
from rota.core.settlement import JobError, Reason
from rota.core.submission import Delivery, Dependency, IdempotencyKey, Template
from rota.ports.store import Inserted, Receipt
from rota.wire.jobs import JobForm, job_form, job_of, new_job_form
from rota.wire.submission import Defaults, Submission, new_job_of, normalized, request_of, submission_of

BIG = '{"n":123456789012345678901234567890}'
FULL = Job(
    id=fresh_id(),
    type="mail",
    payload=BIG,
    queue="q",
    priority=9,
    state=State.DEAD,
    run_at=at(1),
    created_at=BASE,
    updated_at=at(2),
    fence=2**40,
    attempts=3,
    crashes=1,
    max_attempts=7,
    backoff=Backoff(Growth.LISTED, delays=(MINUTE, HOUR), max_elapsed=HOUR, jitter=0.25),
    delivery=Delivery.AT_MOST_ONCE,
    timeout=MINUTE,
    expires_at=at(9),
    worker="w",
    boot="b",
    started_at=at(1),
    finished_at=at(2),
    cancel_requested_at=at(2),
    error=JobError("E", "m", "t"),
    reason=Reason.POISON,
    idempotency_key="k",
    tags=("a", "b"),
    meta={"x": "y"},
    blockers=2,
    on_success=Template(type="s", payload=BIG, delay=MINUTE, on_failure=Template(type="f", expires=HOUR)),
    on_failure=Template(type="f"),
    parent_id=fresh_id(),
    schedule_id=fresh_schedule_id(),
    fire_time=at(0),
)
PLAIN = Job(fresh_id(), "a", "null", "default", 5, State.PENDING, BASE, BASE, BASE)


@pytest.mark.parametrize(
    "job",
    [
        FULL,
        PLAIN,
        replace(PLAIN, state=State.COMPLETED, result=BIG, finished_at=BASE),
        replace(PLAIN, state=State.COMPLETED, result="null", finished_at=BASE),
        replace(PLAIN, state=State.RUNNING, lease_until=at(15), worker="w", boot="b", fence=1, attempts=1),
    ],
)
def test_a_job_survives_the_wire(job: Job) -> None:
    text = msgspec.json.encode(job_form(job))
    assert job_of(msgspec.json.decode(text, type=JobForm)) == job


def test_a_submission_survives_the_wire() -> None:
    job = new_job(
        payload=BIG,
        run_at=at(60),
        expires_at=at(90),
        max_attempts=9,
        backoff=Backoff(base=MINUTE),
        timeout=HOUR,
        tags=("a",),
        meta={"x": "y"},
        after=(Dependency(fresh_id()),),
        on_success=Template(type="s"),
    )
    text = msgspec.json.encode(submission_of(job, BASE))
    read = normalized(msgspec.json.decode(text, type=Submission))
    assert new_job_of(read, job.id, BASE, defaults=Defaults(99, Backoff(base=HOUR))) == job


def test_a_key_survives_the_wire() -> None:
    job = new_job(idempotency=IdempotencyKey("k", b"what was asked"))
    read = normalized(msgspec.json.decode(msgspec.json.encode(submission_of(job, BASE)), type=Submission))
    made = new_job_of(read, job.id, BASE, key_scope="s")
    assert made.idempotency == IdempotencyKey("k", request_of(read, Defaults()), "s")
    assert read.idempotency_fingerprint == b"what was asked".hex()


def test_a_job_just_made_is_shown_as_the_store_has_it() -> None:
    job = new_job(payload=BIG, tags=("a",), on_failure=Template(type="f"))
    shown = new_job_form(job, Inserted(job.id, Receipt.CREATED, State.PENDING, BASE), [])
    plain = Job(job.id, "mail", BIG, "default", 5, State.PENDING, BASE, BASE, BASE, tags=("a",))
    assert shown == job_form(replace(plain, on_failure=Template(type="f")))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ('{"payload":{"a":1,"b":2}}', '{"payload":{"b":2,"a":1}}', True),
        ("{}", '{"type":"default","queue":"default","priority":5,"payload":null}', True),
        ('{"on_success":{}}', '{"on_success":{"queue":"default"}}', True),
        ('{"payload":123456789012345678901234567890}', '{"payload":123456789012345678901234567891}', False),
        ('{"payload":1}', '{"payload":"1"}', False),
        ('{"payload":[1,2]}', '{"payload":[2,1]}', False),
        ('{"delay":5}', '{"delay":6}', False),
        ('{"dedupe_key":"a"}', '{"idempotency_key":"b"}', True),
    ],
)
def test_the_hash_of_a_request_tells_requests_apart_by_what_they_say(one: str, other: str, is_same: bool) -> None:  # noqa: FBT001
    prints = [request_of(normalized(msgspec.json.decode(text, type=Submission)), Defaults()) for text in (one, other)]
    assert (prints[0] == prints[1]) == is_same

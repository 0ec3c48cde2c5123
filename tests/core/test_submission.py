from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import HEIR, NOW, moments, templates, unhurried
from rota.core.ids import JobId, ScheduleId
from rota.core.submission import Dependency, NewJob, Template, request_hash

TAKEN_OVER = {field.name for field in fields(Template)} & {field.name for field in fields(NewJob)}
HOUR = timedelta(hours=1)
LATER = NOW + 2 * HOUR


@unhurried
@given(templates)
def test_a_template_survives_being_written_down(template: Template) -> None:
    text = template.to_text()
    json.loads(text)
    assert Template.from_text(text) == template
    assert Template.from_text(text).to_text() == text


def test_a_plain_template_is_written_in_few_words() -> None:
    assert Template.from_text(Template("mail").to_text()) == Template("mail")
    assert set(json.loads(Template("mail").to_text())) == {
        "type", "payload", "queue", "priority", "max_attempts", "backoff", "delivery", "meta",
    }  # fmt: skip


def test_empty_is_not_the_same_as_absent() -> None:
    bare = Template("mail", payload="", concurrency_key="", timeout=timedelta(0), delay=timedelta(0))
    read = Template.from_text(bare.to_text())
    assert (read.payload, read.concurrency_key, read.timeout, read.expires) == ("", "", timedelta(0), None)


def test_a_template_that_was_read_is_shared_and_cannot_be_written_into() -> None:
    """Reading is cached: a handler that wrote into one job's meta would have written into that of all others."""
    read = Template.from_text(Template("mail", meta={"team": "red"}).to_text())
    with pytest.raises(TypeError):
        read.meta["team"] = "blue"  # type: ignore[index]
    with pytest.raises(TypeError):
        Template("mail").meta["team"] = "blue"  # type: ignore[index]


@unhurried
@given(templates, moments)
def test_a_job_takes_over_all_that_its_template_says(template: Template, now: datetime) -> None:
    job = template.make(HEIR, now)
    assert {name: getattr(job, name) for name in TAKEN_OVER} == {name: getattr(template, name) for name in TAKEN_OVER}
    assert job.id == HEIR
    assert (job.parent_id, job.schedule_id, job.fire_time, job.after, job.idempotency) == (None, None, None, (), None)
    assert job.run_at == (now + template.delay if template.delay else None)
    starts = job.run_at if job.run_at is not None else now
    assert job.expires_at == (None if template.expires is None else starts + template.expires)


def test_only_delay_and_expiry_are_computed_anew() -> None:
    """A field added to one of the two and forgotten in the other is found here."""
    assert {field.name for field in fields(Template)} - TAKEN_OVER == {"delay", "expires"}
    assert {field.name for field in fields(NewJob)} - TAKEN_OVER == {
        "id", "run_at", "expires_at", "idempotency", "after", "parent_id", "schedule_id", "fire_time", "unique",
    }  # fmt: skip


TIMES = [
    # template, asked to run at, runs at, expires at
    (Template("mail"), None, None, None),
    (Template("mail", delay=HOUR), None, NOW + HOUR, None),
    (Template("mail", delay=HOUR), LATER, LATER, None),
    (Template("mail", expires=HOUR), None, None, NOW + HOUR),
    (Template("mail", expires=HOUR), LATER, LATER, LATER + HOUR),
    (Template("mail", delay=HOUR, expires=HOUR), None, NOW + HOUR, NOW + 2 * HOUR),
]


@pytest.mark.parametrize(("template", "asked", "run_at", "expires_at"), TIMES)
def test_a_job_expires_so_long_after_it_was_to_run(
    template: Template, asked: datetime | None, run_at: datetime | None, expires_at: datetime | None
) -> None:
    job = template.make(HEIR, NOW, run_at=asked)
    assert (job.run_at, job.expires_at) == (run_at, expires_at)


def test_make_says_where_a_job_comes_from() -> None:
    waits = (Dependency(JobId(3)),)
    job = Template("mail").make(
        HEIR, NOW, run_at=LATER, parent_id=JobId(1), schedule_id=ScheduleId(2), fire_time=NOW, after=waits
    )
    assert (job.parent_id, job.schedule_id, job.fire_time, job.after) == (1, 2, NOW, waits)


@unhurried
@given(st.binary(), st.binary())
def test_requests_have_one_hash_if_and_only_if_they_are_one(one: bytes, other: bytes) -> None:
    assert (request_hash(one) == request_hash(other)) == (one == other)
    assert len(request_hash(one)) == 16

"""Uniform jobs are equal to jobs that were made one by one."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from builders import BASE, HOUR, after, key, new_job, new_jobs
from rota.core.bulk import UniformJobs, as_uniform, check_all, representatives
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId, ScheduleId
from rota.core.lifecycle import State
from rota.core.retry import Backoff
from rota.core.submission import Delivery, NewJob, Template, check
from rota.core.unique_keys import UniqueKey, UniqueKind
from rota.ports.store import AllCreated, Inserted, Receipt

#: A value for each field that no plain job has.
OTHERWISE: dict[str, Any] = {
    "type": "call",
    "queue": "phone",
    "priority": 9,
    "run_at": BASE,
    "max_attempts": 7,
    "backoff": Backoff(base=HOUR),
    "delivery": Delivery.AT_MOST_ONCE,
    "timeout": HOUR,
    "expires_at": BASE,
    "idempotency": key("k"),
    "concurrency_key": "one",
    "tags": ("red",),
    "meta": {"a": "b"},
    "after": after(JobId(1)),
    "on_success": Template("next"),
    "on_failure": Template("other"),
    "parent_id": JobId(1),
    "schedule_id": ScheduleId(1),
    "fire_time": BASE,
    "unique": UniqueKey(UniqueKind.THROTTLE, "k", HOUR),
}


def some(number: int = 5, **fields: Any) -> list[NewJob]:  # noqa: ANN401 - any field of a job
    return [replace(job, payload=f'"{place}"') for place, job in enumerate(new_jobs(number, **fields))]


def alike(jobs: list[NewJob]) -> UniformJobs:
    """Make the same of a model that is none of them."""
    model = replace(jobs[0], id=JobId(0), payload="nobody's")
    return UniformJobs(model, [job.id for job in jobs], [job.payload for job in jobs])


def test_every_field_but_id_and_payload_is_looked_at() -> None:
    assert {*OTHERWISE, "id", "payload"} == {one.name for one in fields(NewJob)}


@pytest.mark.parametrize("name", OTHERWISE)
def test_each_is_as_if_it_had_been_made_by_itself(name: str) -> None:
    jobs = [replace(job, **{name: OTHERWISE[name]}) for job in some()]
    made = alike(jobs)
    assert list(made) == [made[place] for place in range(5)] == jobs
    assert list(made[1:3]) == jobs[1:3]
    assert (made[-1], len(made), bool(made), jobs[2] in made) == (jobs[-1], 5, True, True)


@pytest.mark.parametrize("name", OTHERWISE)
def test_jobs_that_differ_in_anything_else_are_not_alike(name: str) -> None:
    jobs = some()
    other = replace(jobs[3], **{name: OTHERWISE[name]})
    assert as_uniform([*jobs[:3], other, jobs[4]]) is None
    assert not alike(jobs).matches(other)


def test_jobs_that_differ_in_id_and_payload_only_are_alike() -> None:
    jobs = some(tags=("red",), queue="phone")
    found = as_uniform(jobs)
    assert found is not None
    assert list(found) == jobs
    assert found.matches(replace(jobs[0], id=JobId(1), payload="1"))
    assert as_uniform(found) is found


def test_nothing_is_like_nothing() -> None:
    assert as_uniform([]) is None


def test_in_order_each_keeps_its_payload() -> None:
    jobs = some()
    mixed = alike([jobs[place] for place in (3, 0, 4, 1, 2)])
    assert list(mixed.sorted_by_id()) == jobs
    assert list(alike(jobs).sorted_by_id()) == jobs


def test_one_stands_for_all_that_are_alike_and_each_other_for_itself() -> None:
    jobs = some()
    assert len(representatives(alike(jobs))) == 1
    assert representatives(jobs) == jobs


@pytest.mark.parametrize("place", [0, 4])
@pytest.mark.parametrize("payload", ['"\0 here"', '"\ud800 here"'], ids=["NUL", "half a character"])
def test_a_payload_that_will_not_do_is_refused_by_name_wherever_it_stands(place: int, payload: str) -> None:
    jobs = some()
    jobs[place] = replace(jobs[place], payload=payload)
    with pytest.raises(InvalidRequest) as alone:
        check(jobs[place])
    with pytest.raises(InvalidRequest) as together:
        check_all(alike(jobs))
    assert str(together.value) == str(alone.value)


def test_what_all_have_in_common_is_checked() -> None:
    with pytest.raises(InvalidRequest, match="priority"):
        check_all(alike(some(priority=11)))


def test_payloads_in_any_language_will_do() -> None:
    check_all(alike([replace(job, payload='"naïve 😀"') for job in some()]))


def test_jobs_that_are_not_alike_are_checked_one_by_one() -> None:
    with pytest.raises(InvalidRequest, match="priority"):
        check_all([new_job(), new_job(priority=11)])


def test_answers_that_say_the_same_are_as_if_each_had_been_given_by_itself() -> None:
    ids = [job.id for job in some()]
    answers = AllCreated(ids, State.SCHEDULED)
    given = [Inserted(job_id, Receipt.CREATED, State.SCHEDULED) for job_id in ids]
    assert list(answers) == [answers[place] for place in range(5)] == given
    assert list(answers[1:3]) == given[1:3]
    assert (answers[-1], len(answers), bool(answers), given[2] in answers) == (given[-1], 5, True, True)

"""One canonical hash of a request: equal by every way in, and another one if any field differs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.environment import api_environment, body_of, problem_of
from builders import BASE
from rota import Retry, Rota
from rota.core.errors import KeyReused
from rota.core.ids import JobId, to_text
from rota.core.submission import NewJob, Template
from rota.sdk.options import Options
from rota.wire.submission import Submission, new_job_of, normalized, submission_of

app = Rota(":memory:")


@app.task
def note(value: object = None, *, other: object = None) -> None:
    del value, other


Body = dict[str, Any]
SPANS = st.integers(1, 10**6).map(float)
#: Each field: values for it, how HTTP writes one, and how Python does.
Field = tuple[st.SearchStrategy[Any], Callable[[Any], Body], Callable[[Any], Any]]


def _plainly(name: str, values: st.SearchStrategy[Any]) -> Field:
    return values, lambda value: {name: value}, lambda value: {name: value}


WORDS = st.text("abc", min_size=1, max_size=3)
FIELDS: dict[str, Field] = {
    "queue": _plainly("queue", WORDS),
    "priority": _plainly("priority", st.integers(1, 10)),
    "max_attempts": (st.integers(1, 9), lambda value: {"max_attempts": value}, lambda value: {"retry": value}),
    "delivery": _plainly("delivery", st.sampled_from(["at_least_once", "at_most_once"])),
    "timeout": _plainly("timeout", SPANS),
    "expires": _plainly("expires", SPANS),
    "delay": _plainly("delay", SPANS),
    "tags": _plainly("tags", st.lists(WORDS, max_size=3)),
    "meta": _plainly("meta", st.dictionaries(WORDS, WORDS, max_size=2)),
    "on_success": (
        st.integers(0, 3),
        lambda value: {"on_success": {"type": "note", "payload": {"args": [value], "kwargs": {}}}},
        lambda value: {"on_success": note.call(value)},
    ),
    "on_failure": (
        st.integers(0, 3),
        lambda value: {"on_failure": {"type": "note", "payload": {"args": [value], "kwargs": {}}, "priority": 5}},
        lambda value: {"on_failure": note.call(value)},
    ),
    "backoff": (
        SPANS,
        lambda value: {"retry": {"base": value, "cap": "10000000s"}},
        lambda value: {"retry": Retry(base=value, cap="10000000s")},
    ),
}
CHOICES = st.fixed_dictionaries({}, optional={name: values for name, (values, *_) in FIELDS.items()})


def job_of(body: Body) -> NewJob:
    return new_job_of(normalized(msgspec.json.decode(json.dumps(body), type=Submission)), JobId(1), BASE)


def over_http(body: Body) -> bytes:
    """Return the hash of a request that comes as JSON."""
    job = job_of(body)
    assert job.idempotency is not None
    return job.idempotency.request


def in_python(argument: object, options: Options, now: datetime = BASE) -> tuple[bytes, bytes]:
    """Return the hashes of a call on a store, and of the same call over HTTP."""
    job = note.using(**options).call(argument).job(JobId(1), now)
    assert job.idempotency is not None
    sent = msgspec.json.decode(msgspec.json.encode(submission_of(job, now)), type=Submission)
    received = new_job_of(normalized(sent), JobId(2), now)
    assert received.idempotency is not None
    return job.idempotency.request, received.idempotency.request


def written(argument: object, chosen: dict[str, Any]) -> tuple[Body, Options]:
    """Write one request for HTTP and for Python."""
    body: Body = {"type": "note", "payload": {"kwargs": {}, "args": [argument]}, "idempotency_key": "k"}
    options: Any = {"idempotency_key": "k"}
    if "backoff" in chosen or chosen.get("delivery") == "at_most_once":
        # A rule brings the number of attempts along, and at most once means one.
        chosen = {name: value for name, value in chosen.items() if name != "max_attempts"}
    for name, value in chosen.items():
        _, for_http, for_python = FIELDS[name]
        body |= for_http(value)
        options |= for_python(value)
    return body, options


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("aäß", max_size=3), CHOICES)
def test_equal_requests_have_one_hash_by_every_way_in(argument: object, chosen: dict[str, Any]) -> None:
    body, options = written(argument, chosen)
    assert {over_http(body), *in_python(argument, options)} == {over_http(body)}


@given(CHOICES, CHOICES)
def test_requests_differ_in_their_hashes_as_they_differ(one: dict[str, Any], other: dict[str, Any]) -> None:
    bodies = [written(1, chosen)[0] for chosen in (one, other)]
    jobs = [replace(job_of(body), idempotency=None) for body in bodies]
    assert (over_http(bodies[0]) == over_http(bodies[1])) == (jobs[0] == jobs[1])


DIFFERENT: dict[str, Body] = {
    "type": {"type": "other"},
    "payload": {"payload": {"args": [2], "kwargs": {}}},
    "queue": {"queue": "mail"},
    "priority": {"priority": 6},
    "max_attempts": {"max_attempts": 4},
    "backoff": {"retry": {"base": 2}},
    "delivery": {"delivery": "at_most_once"},
    "timeout": {"timeout": 5},
    "expires": {"expires": 5},
    "delay": {"delay": 5},
    "concurrency_key": {"concurrency_key": "c"},
    "tags": {"tags": ["a"]},
    "meta": {"meta": {"a": "b"}},
    "on_success": {"on_success": {"type": "next"}},
    "on_failure": {"on_failure": {"type": "next"}},
    "run_at": {"run_at": "2027-01-01T00:00:00Z"},
    "after": {"after": [to_text(JobId(7))]},
}


def test_every_field_makes_another_request() -> None:
    """All of them, also against each other, so that a new field without a line above is found."""
    assert DIFFERENT.keys() == {*Template.__slots__, "run_at", "after"}
    plain = {"type": "note", "payload": {"args": [1], "kwargs": {}}, "idempotency_key": "k"}
    hashes = {name: over_http({**plain, **change}) for name, change in DIFFERENT.items() if change}
    assert len({over_http(plain), *hashes.values()}) == len(hashes) + 1
    nested = [over_http({**plain, "on_success": {"type": "next", **DIFFERENT[name]}}) for name in ("queue", "payload")]
    assert len({*nested, hashes["on_success"]}) == 3


@pytest.mark.parametrize(
    "default",
    [
        {"max_attempts": 3},
        {"priority": 5},
        {"queue": "default"},
        {"tags": []},
        {"meta": {}},
        {"delay": 0},
        {"retry": {"base": 1}},
        {"delivery": "at_least_once"},
        {"meta": {"traceparent": "00-1-2-03"}},
    ],
    ids=str,
)
def test_a_default_that_is_written_out_makes_no_other_request(default: Body) -> None:
    plain = {"type": "note", "payload": 1, "idempotency_key": "k"}
    assert over_http({**plain, **default}) == over_http(plain)
    assert over_http({**plain, "on_success": {"type": "a"}}) == over_http(
        {**plain, "on_success": {"type": "a", **default}}
    )


def test_a_call_with_a_delay_is_the_same_request_later_and_one_at_another_time_is_not() -> None:
    assert in_python(1, {"idempotency_key": "k", "delay": 5}) == in_python(
        1, {"idempotency_key": "k", "delay": 5}, BASE + timedelta(seconds=3)
    )
    moments = [datetime(2027, 1, day, tzinfo=UTC) for day in (1, 2)]
    assert len({in_python(1, {"idempotency_key": "k", "run_at": moment}) for moment in moments}) == 2


async def test_one_key_means_one_job_by_every_way_in(tmp_path: Path) -> None:
    place = tmp_path / "rota.db"
    here = Rota(str(place))
    task = here.task(name="note")(lambda value: value)
    async with api_environment(location=str(place)) as env:
        body = {"type": "note", "payload": {"args": [1], "kwargs": {}}, "idempotency_key": "k"}
        first = body_of(await env.client.post("/v1/jobs", json=body), 201)
        again = await env.client.post("/v1/jobs", json={**body, "max_attempts": 3})
        handle = await task.using(idempotency_key="k").asubmit(1)
        assert (body_of(again)["id"], handle.id) == (first["id"], first["id"])
        with pytest.raises(KeyReused):
            await task.using(idempotency_key="k").asubmit(2)
        problem_of(await env.client.post("/v1/jobs", json={**body, "priority": 6}), 422)
    await asyncio.to_thread(here.close)

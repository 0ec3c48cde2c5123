"""What submissions of one kind share is found out once: the second is answered as the first, and nobody as another."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from api.staging import Stage, body_of, fields_of, problem_of, staged
from building import at
from rota.api import ApiSettings
from rota.core.errors import InvalidRequest
from rota.core.identity import JobId, to_text
from rota.core.lifecycle import State
from rota.core.submission import NewJob, Template
from rota.ports.store import Inserted, Receipt
from rota.wire import kinds
from rota.wire.jobs import fresh_form
from rota.wire.kinds import Kind, Kinds
from rota.wire.submission import Defaults, Submission

NOW = at(12)
ODD_TYPES = [
    "mail",
    "payload",
    "run_at",
    '"',
    '"payload":null',
    ',"payload":null,',
    "\\",
    "é",
    "\U0001f600",
    to_text(0),
]


@pytest.mark.parametrize("job_type", ODD_TYPES)
@pytest.mark.parametrize("payload", ["null", "1", '{"payload":null,"run_at":"1970-01-01T00:00:00Z"}', '"é"'])
def test_a_kind_shows_its_jobs_as_any_job_is_shown(job_type: str, payload: str) -> None:
    follower = Template(job_type, '{"payload":null}')
    for like in (
        NewJob(JobId(1), job_type),
        NewJob(
            JobId(1), job_type, tags=("payload",), meta={"payload": "null", "id": "0"}, timeout=timedelta(seconds=2)
        ),
        NewJob(JobId(1), job_type, on_success=follower, on_failure=follower),
    ):
        kind = Kind(like)
        job = kind.job(JobId(2**62 + 5), payload)
        form = fresh_form(job, Inserted(job.id, Receipt.CREATED, State.PENDING, NOW), [])
        assert kind.shown(to_text(job.id), payload, NOW) == msgspec.json.encode(form)


def test_the_kinds_that_are_kept_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "MOST", 3)
    known = Kinds()
    for number in range(10):
        known.learn(Submission(type=f"t{number}"), NewJob(JobId(1), f"t{number}"))
    assert known.find(Submission(type="t0")) is None
    found = known.find(Submission(type="t9"))
    assert found is not None
    assert found.type == "t9"


async def twice(stage: Stage, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
    """Submit the same twice, and see that both are shown alike and as they are stored."""
    first, second = await stage.submit(**fields), await stage.submit(**fields)
    assert second == await stage.get(second["id"])
    assert first == {**second, "id": first["id"]}
    assert first["id"] != second["id"]
    return second


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"type": "mail", "payload": {"to": "ada"}},
        {"queue": "letters", "priority": 9, "max_attempts": 2},
        {"timeout": "5m", "delivery": "at_most_once"},
        {"tags": ["a"], "meta": {"a": "b"}, "retry": {"base": 3}, "on_success": {"type": "thank"}},
        {"delay": "1h"},
        {"expires": 60},
        {"run_at": "2026-03-01T11:00:00Z"},
        {"due_at": "2027-03-01T11:00:00Z"},
    ],
)
async def test_the_second_of_a_kind_is_shown_as_the_first(stage: Stage, fields: dict[str, Any]) -> None:
    await twice(stage, **fields)


async def test_a_kind_takes_the_defaults_of_its_task() -> None:
    tasks = {"mail": Defaults(queue="letters", priority=8, tags=("t",), expires=timedelta(minutes=1))}
    async with staged(ApiSettings(defaults=Defaults(max_attempts=9, tasks=tasks))) as stage:
        job = await twice(stage, type="mail")
        assert (job["queue"], job["priority"], job["tags"], "expires_at" in job) == ("letters", 8, ["t"], True)
        assert (await twice(stage, type="other"))["max_attempts"] == 9


async def test_what_expires_is_reckoned_for_each(stage: Stage) -> None:
    first = await stage.submit(type="mail", expires=60)
    stage.clock.move(timedelta(seconds=5))
    assert (await stage.submit(type="mail", expires=60))["expires_at"] > first["expires_at"]


async def test_a_payload_is_checked_every_time() -> None:
    def check(payload: object) -> None:
        if payload != "good":
            raise InvalidRequest("payload: must be good", field="payload")

    async with staged(ApiSettings(payload_checks={"http": check})) as stage:
        await twice(stage, type="http", payload="good")
        answer = await stage.client.post("/v1/jobs", json={"type": "http", "payload": "bad"})
        assert fields_of(problem_of(answer, 422)) == {"payload"}


async def test_a_key_and_a_trace_belong_to_one_request(stage: Stage) -> None:
    body = {"type": "mail", "payload": 1}
    plain = await twice(stage, **body)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    traced = body_of(await stage.client.post("/v1/jobs", json=body, headers={"traceparent": trace}), 201)
    assert traced["meta"]["traceparent"] == trace
    keyed = [await stage.client.post("/v1/jobs", json=body, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [answer.status_code for answer in keyed] == [201, 200]
    assert {body_of(answer, answer.status_code)["id"] for answer in keyed}.isdisjoint({plain["id"], traced["id"]})
    assert "meta" not in await twice(stage, **body)


async def test_a_warning_is_given_every_time_and_only_while_it_holds() -> None:
    known = ["mail"]
    async with staged(ApiSettings(known_types=lambda: known)) as stage:
        for _ in range(2):
            (warning,) = (await stage.submit(type="male"))["warnings"]
            assert warning == "no worker here knows the type 'male'; did you mean 'mail'?"
        known.append("male")
        assert "warnings" not in await stage.submit(type="male")
        known.clear()
        assert (await stage.submit(type="male"))["warnings"]


async def test_a_batch_and_a_single_submission_share_their_kinds(stage: Stage) -> None:
    body = {"type": "mail", "queue": "letters", "payload": [1]}
    answer = body_of(await stage.client.post("/v1/jobs:batch", json={"jobs": [body, {**body, "payload": 2}]}))
    assert answer["created"] == 2
    stored = [await stage.get(item["id"]) for item in answer["items"]]
    assert [(job["queue"], job["payload"]) for job in stored] == [("letters", [1]), ("letters", 2)]
    single = await stage.submit(**body)
    assert {**single, "id": stored[0]["id"]} == stored[0]


async def test_a_kind_that_waits_for_its_time_is_shown_so(stage: Stage) -> None:
    """The time of a submission is in none of the kinds, so one that differs in its time only is another."""
    await twice(stage, type="mail")
    later = await stage.submit(type="mail", run_at="2030-01-01T00:00:00Z")
    assert (later["state"], later["run_at"]) == ("scheduled", "2030-01-01T00:00:00Z")
    assert (await stage.submit(type="mail"))["state"] == "pending"

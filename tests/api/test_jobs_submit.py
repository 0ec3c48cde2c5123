"""Submitting jobs: accepted input, responses, and stored jobs."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest

from api.environment import HERE, ApiEnvironment, api_environment, body_of, fields_of, problem_of, served
from builders import HOUR, at, new_job
from engine.environment import engine_in_memory
from rota.api import ApiSettings, create_app
from rota.cli.exits import Exit
from rota.cli.main import main
from rota.client import Client
from rota.client.transport import Transport
from rota.core.errors import InvalidRequest
from rota.core.retry import Backoff
from rota.core.submission import Delivery
from rota.ports.store import JobQuery, Receipt
from rota.wire.submission import Defaults

FULL = {
    "type": "mail",
    "payload": {"to": "ada", "n": 2**70},
    "queue": "letters",
    "priority": 9,
    "max_attempts": 1,
    "retry": {"growth": "linear", "base": "2s", "cap": 30, "jitter": 0, "max_elapsed": "1h"},
    "delivery": "at_most_once",
    "timeout": "5m",
    "expires": 3600,
    "delay": "90s",
    "tags": ["a", "b", "a"],
    "meta": {"trace": "1"},
    "on_success": {"type": "thank", "payload": [1], "on_failure": {"type": "weep"}},
    "on_failure": {"type": "alarm"},
}


async def test_a_job_that_starts_at_most_once_has_one_attempt_and_more_are_refused(env: ApiEnvironment) -> None:
    job = await env.submit(delivery="at_most_once")
    assert job["max_attempts"] == 1
    for body in (
        {"delivery": "at_most_once", "max_attempts": 2},
        {"on_success": {"delivery": "at_most_once", "max_attempts": 2}},
        {"cron": "@daily", "delivery": "at_most_once", "max_attempts": 2},
    ):
        response = await env.client.post("/v1/jobs", content=msgspec.json.encode(body), headers=json_type())
        (error,) = body_of(response, 422)["errors"]
        assert "max_attempts" in error["field"]
    response = await env.client.patch(
        f"/v1/jobs/{job['id']}", content=msgspec.json.encode({"max_attempts": 2}), headers=json_type()
    )
    assert "starts once" in body_of(response, 422)["detail"]


async def test_every_field_arrives(env: ApiEnvironment) -> None:
    response = await env.client.post("/v1/jobs", content=msgspec.json.encode(FULL), headers=json_type())
    job = body_of(response, 201)
    assert response.headers["location"] == f"/v1/jobs/{job['id']}"
    shown = await env.get(job["id"])
    assert shown == job
    assert (shown["payload"], shown["queue"], shown["priority"]) == (FULL["payload"], "letters", 9)
    assert (shown["max_attempts"], shown["delivery"], shown["timeout"]) == (1, "at_most_once", 300)
    assert shown["retry"] == {"growth": "linear", "base": 2, "factor": 2, "cap": 30, "jitter": 0, "max_elapsed": 3600}
    assert (shown["tags"], shown["meta"]) == (["a", "b"], {"trace": "1"})
    assert (shown["run_at"], shown["status"]) == ("2026-03-01T12:01:30.123457Z", "scheduled")
    assert shown["expires_at"] == "2026-03-01T13:01:30.123457Z"
    assert shown["on_success"]["on_failure"]["type"] == "weep"
    assert shown["on_failure"]["type"] == "alarm"


async def test_a_concurrency_key_is_kept_and_shown(env: ApiEnvironment) -> None:
    body = {"concurrency_key": "c", "on_success": {"concurrency_key": "d"}}
    shown = body_of(await env.client.post("/v1/jobs", json=body), 201)
    assert (shown["concurrency_key"], shown["on_success"]["concurrency_key"]) == ("c", "d")
    read = body_of(await env.client.get(f"/v1/jobs/{shown['id']}"))
    assert read["concurrency_key"] == "c"


def json_type() -> dict[str, str]:
    return {"Content-Type": "application/json; charset=utf-8"}


async def test_a_payload_comes_back_as_the_very_text_it_was(env: ApiEnvironment) -> None:
    numbers = '"big":123456789012345678901234567890,"exact":0.10000000000000000001,"e":1E5'
    text = f'{{{numbers},"u":"\\u00e9\\u0000 \\ud83d\\ude00"}}'
    body = f'{{"payload": {text} }}'
    job = body_of(await env.client.post("/v1/jobs", content=body, headers=json_type()), 201)
    response = await env.client.get(f"/v1/jobs/{job['id']}")
    assert text in response.text


@pytest.mark.parametrize("payload", [None, "plain", 0, [1, "a"], True, {"a": {}}, "\u0000", "\U0001f600"])
async def test_a_payload_may_be_any_json(env: ApiEnvironment, payload: object) -> None:
    job = await env.submit(payload=payload)
    assert (await env.get(job["id"]))["payload"] == payload


async def test_without_a_type_a_job_is_of_the_default_type(env: ApiEnvironment) -> None:
    assert (await env.submit())["type"] == "default"


@pytest.mark.parametrize("name", ["run_at", "due_at", "schedule_at"])
async def test_a_time_may_have_any_of_its_names(env: ApiEnvironment, name: str) -> None:
    job = await env.submit(**{name: "2026-03-01T15:00:00+02:00"})
    assert (job["run_at"], job["status"]) == ("2026-03-01T13:00:00Z", "scheduled")


async def test_synonyms_that_agree_are_one_and_those_that_differ_are_refused(env: ApiEnvironment) -> None:
    agreed = await env.submit(run_at="2026-03-01T15:00:00+02:00", due_at="2026-03-01T13:00:00Z")
    assert agreed["run_at"] == "2026-03-01T13:00:00Z"
    for pair in (
        {"run_at": "2026-03-01T15:00:00Z", "due_at": "2026-03-01T13:00:00Z"},
        {"idempotency_key": "a", "dedupe_key": "b"},
        {"cron": "@daily", "schedule": "@hourly"},
        {"run_at": "2026-03-01T15:00:00Z", "delay": 5},
        {"zone": "UTC"},
        {"name": "nightly"},
    ):
        refused = problem_of(await env.client.post("/v1/jobs", json=pair), 422)
        assert fields_of(refused) & set(pair)
    headers = {"Idempotency-Key": "c"}
    refused = problem_of(await env.client.post("/jobs", json={"dedupe_key": "b"}, headers=headers), 422)
    assert fields_of(refused) == {"dedupe_key"}


async def test_a_job_waits_for_others(env: ApiEnvironment) -> None:
    first = await env.submit(type="first")
    second = await env.submit(type="second", after=[first["id"]])
    assert (second["status"], second["blockers"]) == ("blocked", 1)
    (claimed,) = await env.claim()
    await env.settle(claimed, "succeeded")
    assert (await env.get(second["id"]))["status"] == "pending"


async def test_a_follow_up_is_made_at_the_end(env: ApiEnvironment) -> None:
    await env.submit(type="first", on_success={"type": "second", "payload": {"x": 1}})
    (claimed,) = await env.claim()
    await env.settle(claimed, "succeeded")
    (follow_up,) = (await env.client.get("/jobs?type=second")).json()
    assert (follow_up["payload"], follow_up["parent_id"]) == ({"x": 1}, claimed["id"])


async def test_a_batch_answers_each_submission_by_itself(env: ApiEnvironment) -> None:
    jobs = [{"type": "a"}, {"type": ""}, {"idempotency_key": "k"}, {"idempotency_key": "k"}, 7, {"cron": "@daily"}]
    jobs.append({"idempotency_key": "k", "priority": 1})
    reply = body_of(await env.client.post("/v1/jobs:batch", json={"jobs": jobs}))
    statuses = [item["status"] for item in reply["items"]]
    assert statuses == [201, 422, 201, 200, 422, 422, 422]
    assert reply["items"][2]["id"] == reply["items"][3]["id"]
    assert (reply["created"], reply["replayed"], reply["refused"]) == (2, 1, 4)
    assert fields_of(reply["items"][1]["error"]) == {"type"}
    assert reply["items"][6]["receipt"] == "key_reused"
    assert (await env.get(reply["items"][0]["id"]))["type"] == "a"


@pytest.mark.parametrize(("count", "status"), [(0, 200), (1, 200), (999, 200), (1000, 200), (1001, 422)])
async def test_a_batch_has_a_size(env: ApiEnvironment, count: int, status: int) -> None:
    reply = await env.client.post("/v1/jobs:batch", json={"jobs": [{}] * count})
    assert reply.status_code == status
    if status == 200:
        assert len({item["id"] for item in reply.json()["items"]}) == count


async def test_the_server_has_defaults_that_a_submission_overrules() -> None:
    backoff = Backoff(base=timedelta(seconds=7), jitter=0.5)
    async with api_environment(ApiSettings(defaults=Defaults(9, backoff))) as env:
        plain = await env.submit()
        own = await env.submit(max_attempts=2, retry={"cap": 5})
    assert (plain["max_attempts"], plain["retry"]["base"]) == (9, 7)
    assert (own["max_attempts"], own["retry"]["base"], own["retry"]["cap"]) == (2, 7, 5)


def check_sleep(payload: object) -> None:
    if not isinstance(payload, dict) or "duration" not in payload:
        raise InvalidRequest("payload.duration: say for how long", field="duration")


async def test_the_payload_of_a_built_in_type_is_checked_wherever_it_stands() -> None:
    async with api_environment(ApiSettings(payload_checks={"sleep": check_sleep})) as env:
        for request, field in (
            ({"type": "sleep"}, "payload.duration"),
            ({"on_success": {"type": "sleep"}}, "on_success.payload.duration"),
            ({"on_failure": {"on_success": {"type": "sleep"}}}, "on_failure.on_success.payload.duration"),
            ({"type": "sleep", "cron": "@daily"}, "payload.duration"),
        ):
            refused = problem_of(await env.client.post("/tasks", json=request), 422)
            assert fields_of(refused) == {field}
        schedule = {"name": "nap", "cron": "@daily", "job": {"type": "sleep"}}
        refused = problem_of(await env.client.post("/v1/schedules", json=schedule), 422)
        assert fields_of(refused) == {"job.payload.duration"}
        assert (await env.submit(type="sleep", payload={"duration": 1}))["status"] == "pending"


async def test_a_type_that_nobody_knows_is_warned_of_and_taken() -> None:
    async with api_environment(ApiSettings(known_types=lambda: ["send_email"])) as env:
        slip = await env.submit(type="send_emial")
        right = await env.submit(type="send_email")
    assert slip["warnings"] == ["no worker here knows the type 'send_emial'; did you mean 'send_email'?"]
    assert "warnings" not in right


async def test_a_body_is_only_read_as_json_if_it_says_so(env: ApiEnvironment) -> None:
    """A web page of another site may send text/plain without a preflight; JSON it may not."""
    for media in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = {"Content-Type": media} if media else {}
        problem_of(await env.client.post("/jobs", content=json.dumps({}), headers=headers), 415)
    assert (await env.client.get("/jobs")).json() == []


async def test_a_task_s_own_defaults_go_before_the_server_s() -> None:
    own = Defaults(max_attempts=2, timeout=timedelta(seconds=30), queue="letters", priority=8)
    async with api_environment(ApiSettings(defaults=Defaults(9, tasks={"mail": own}))) as env:
        mail, other = await env.submit(type="mail"), await env.submit(type="other")
        answer = await env.submit(type="mail", queue="default", priority=1, max_attempts=5, timeout="1m")
    assert (mail["max_attempts"], mail["timeout"], mail["queue"], mail["priority"]) == (2, 30, "letters", 8)
    assert (other["max_attempts"], other["queue"], other["priority"]) == (9, "default", 5)
    assert (answer["max_attempts"], answer["timeout"], answer["queue"], answer["priority"]) == (5, 60, "default", 1)


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs:batch"])
async def test_a_delay_and_an_expiry_are_counted_by_the_stores_clock(path: str) -> None:
    """A server whose clock is an hour behind made jobs that had expired before they were stored."""
    async with engine_in_memory() as engine_env:
        engine_env.host_clock.move(-HOUR)
        transport = httpx.ASGITransport(app=create_app(engine_env.engine))
        job = {"type": "a", "delay": 60, "expires": 30}
        async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
            answer = await client.post(path, json=job if path == "/v1/jobs" else {"jobs": [{"type": "b"}, job]})
        assert answer.is_success
        (made,) = await engine_env.store.find(JobQuery(types=("a",)))
        assert (made.run_at, made.expires_at) == (at(60), at(90))


async def test_a_task_that_must_start_once_does_so_over_http_too() -> None:
    """A task's delivery was ignored where its submission said nothing of it."""
    own = Defaults(delivery=Delivery.AT_MOST_ONCE, tags=("money",), expires=timedelta(hours=1))
    async with api_environment(ApiSettings(defaults=Defaults(tasks={"charge": own}))) as env:
        job = await env.submit(type="charge")
        answer = await env.submit(type="charge", delivery="at_least_once", tags=[])
    assert (job["delivery"], job["tags"], job["expires_at"] is not None) == ("at_most_once", ["money"], True)
    assert (answer.get("delivery"), answer.get("tags", [])) == (None, [])


@pytest.mark.parametrize(
    "payload",
    ['{"n":1}', '{"text":"' + "x" * 2_000 + '"}', "[" + '{"a":1},' * 50 + "1]"],
    ids=["small", "long", "many names"],
)
async def test_a_client_sends_any_number_of_jobs_in_as_many_requests_as_it_takes(
    env: ApiEnvironment, payload: str
) -> None:
    """A server takes a thousand jobs at once, but not more bytes, and not more names, than any body may have."""
    client = Client(Transport([HERE], http_transport=httpx.ASGITransport(app=env.api)), clock=env.clock)
    jobs = [new_job(payload=payload) for _ in range(1_000)]
    answers = await client.submit(jobs)
    await client.close()
    assert len({answer.job_id for answer in answers}) == len(jobs)
    assert {answer.receipt for answer in answers} == {Receipt.CREATED}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"dedupe_key": ""}, "dedupe_key"),
        ({"tags": "abc"}, "tags"),
        ({"retry": True}, "retry"),
        ({"max_attempts": True}, "max_attempts"),
        ({"delivery": "exactly_once"}, "delivery"),
        ({"meta": {"k": 1}}, "meta"),
        ({"run_at": "2030-01-01T00:00:00"}, "run_at"),
        ({"on_success": "x"}, "on_success"),
        ({"queue": ""}, "queue"),
    ],
)
async def test_what_python_refuses_is_refused_by_http(env: ApiEnvironment, body: dict[str, object], field: str) -> None:
    refused = problem_of(await env.client.post("/v1/jobs", json=body), 422)
    assert fields_of(refused) == {field}


@pytest.mark.parametrize("key", ["", " ", '""', "k" * 201])
async def test_an_empty_or_endless_key_in_the_header_is_refused(env: ApiEnvironment, key: str) -> None:
    refused = problem_of(await env.client.post("/v1/jobs", json={}, headers={"Idempotency-Key": key}), 422)
    assert fields_of(refused) == {"Idempotency-Key"}


@pytest.mark.parametrize(
    "flag", ["--key", "--cron", "--every", "--at", "--in", "--queue", "--timeout", "--tag", "--type"]
)
async def test_an_empty_value_is_refused_by_the_command_line(env: ApiEnvironment, flag: str) -> None:
    """Some were taken for an option that is not given."""
    async with served(env.api) as url:
        code = await asyncio.to_thread(main, ["submit", flag, "", "--api-url", url])
        assert code not in {Exit.OK, Exit.UNREACHABLE}
        for option in ("--on-success", "--on-failure"):
            assert await asyncio.to_thread(main, ["submit", option, "", "--api-url", url]) == code
    assert body_of(await env.client.get("/v1/jobs"))["items"] == []


async def test_a_job_cannot_wait_for_one_that_is_not_there(env: ApiEnvironment) -> None:
    """It was taken with 201, and was cancelled when it was born."""
    problem = problem_of(await env.client.post("/v1/jobs", json={"after": ["0000000000001"]}), 422)
    assert problem["errors"][0]["field"] == "after"
    assert "job 0000000000001 is unknown" in problem["detail"]
    parent = await env.submit()
    batch = {"jobs": [{"after": ["0000000000001"]}, {"after": [parent["id"]]}, {}]}
    items = body_of(await env.client.post("/v1/jobs:batch", json=batch))["items"]
    assert [item["status"] for item in items] == [422, 201, 201]
    assert items[0]["error"]["errors"][0]["field"] == "after"
    assert len(body_of(await env.client.get("/v1/jobs"))["items"]) == 3


async def test_a_refused_item_of_a_batch_has_no_id_and_no_state(env: ApiEnvironment) -> None:
    await env.submit(idempotency_key="a")
    await env.client.patch("/v1/queues/full", json={"max_depth": 0})
    batch = {"jobs": [{"idempotency_key": "a", "type": "other"}, {"queue": "full"}]}
    items = body_of(await env.client.post("/v1/jobs:batch", json=batch))["items"]
    assert [(item["status"], item["receipt"]) for item in items] == [(422, "key_reused"), (429, "queue_full")]
    assert not any("id" in item or "state" in item for item in items)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"delay": "soon"}, "delay"),
        ({"retry": {"base": "soon"}}, "retry.base"),
        ({"after": ["zzzzzzzzzzzzz"]}, "after"),
    ],
)
async def test_the_name_of_a_field_stands_once_in_an_error(
    env: ApiEnvironment, wrong: dict[str, Any], field: str
) -> None:
    """The command line shows field and message, which began with the field again: "delay: delay: ..."."""
    problem = problem_of(await env.client.post("/v1/jobs", json=wrong), 422)
    (error,) = problem["errors"]
    assert error["field"] == field
    assert not error["message"].startswith(f"{field}:")
    assert problem["detail"].count(f"{field}:") == 1

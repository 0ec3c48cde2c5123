"""Redaction of answers: payloads and secrets in them are shown only to tokens with the action for it."""

from __future__ import annotations

import json
import typing
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest
from msgspec import Raw, Struct

from api.environment import ApiEnvironment, api_environment, body_of, fields_of, problem_of
from rota.api import ApiKey, ApiSettings
from rota.api.redaction import OWN, TEXTS
from rota.api.routes import ROUTES
from rota.client import Client
from rota.client.transport import Refused, Transport
from rota.core.access import Action
from rota.core.graph import WorkflowId
from rota.core.redaction import REDACTED, SecretKeys
from rota.wire.scalars import job_id_of

ADMIN = {"Authorization": "Bearer bootstrap-0123456789abcdef"}
CANARY = "canary-5f1c"
SECRET = "hunter2-5f1c"  # noqa: S105 - a made-up one
PAYLOAD = {"to": CANARY, "smtp": {"Password": SECRET, "url": f"smtp://me:{SECRET}@mail"}, "max_tokens": 7}


@pytest.fixture
async def guarded() -> AsyncIterator[ApiEnvironment]:
    settings = ApiSettings(keys=(ApiKey.of("token", "bootstrap-0123456789abcdef"),))
    async with api_environment(settings) as env:
        env.client.headers.update(ADMIN)
        yield env


async def token(env: ApiEnvironment, **fields: Any) -> dict[str, str]:  # noqa: ANN401 - any field
    answer = await env.client.post("/v1/tokens", json={"name": f"{fields}", **fields})
    return {"Authorization": f"Bearer {body_of(answer, 201)['secret']}"}


async def lease(env: ApiEnvironment) -> dict[str, Any]:
    request = {"worker_id": "ada", "boot_id": "b", "max": 1, "queues": ["default"]}
    answer = body_of(await env.client.post("/v1/leases:claim", json=request))
    (job,) = answer["jobs"]
    return {"id": job["id"], "fence": job["fence"], "lease_token": answer["lease_tokens"][job["id"]]}


async def stage_jobs(env: ApiEnvironment) -> dict[str, str]:
    """Make a job of each kind that shows what users wrote, and give their ids."""
    follow = {"type": "after", "payload": PAYLOAD}
    done = await env.submit(type="mail", payload=PAYLOAD, on_failure=follow, meta={"api_key": SECRET})
    held = await lease(env)
    step = {**held, "key": "sent", "act": "intend"}
    body_of(await env.client.post("/v1/leases:step", json=step))
    body_of(await env.client.post("/v1/leases:step", json={**step, "act": "conclude", "outcome": json.dumps(PAYLOAD)}))
    renewal = {**held, "progress": f"sent {CANARY} password={SECRET}"}
    body_of(await env.client.post("/v1/leases:renew", json={"renewals": [renewal]}))
    body_of(
        await env.client.post(
            "/v1/leases:settle", json={"reports": [{**held, "outcome": "succeeded", "result": PAYLOAD}]}
        )
    )
    error = {"kind": "OSError", "message": f"{CANARY} password={SECRET}", "traceback": f"{CANARY}: '{SECRET}'"}
    ids = {"done": done["id"]}
    for name, attempts in (("dead", 1), ("retrying", 3)):
        ids[name] = (await env.submit(type="mail", payload=PAYLOAD, max_attempts=attempts))["id"]
        report = {**await lease(env), "outcome": "failed", "error": error, "log_tail": CANARY}
        body_of(await env.client.post("/v1/leases:settle", json={"reports": [report]}))
    answer = await env.client.post("/v1/schedules", json={"name": "s", "cron": "0 0 1 1 *", "job": follow})
    ids["schedule"] = body_of(answer, 201)["id"]
    emitted = await env.client.post("/v1/events/paid", json={"payload": PAYLOAD})
    assert emitted.status_code < 300, emitted.text
    return ids


def reads(ids: dict[str, str]) -> list[str]:
    jobs = [
        f"/v1/jobs/{ids[name]}{rest}"
        for name in ("done", "dead", "retrying")
        for rest in ("", "/attempts", "/logs", "/explain", "/result", "/steps", "/relations")
    ]
    return [
        *jobs,
        *(f"{path}/{ids['dead']}" for path in ("/jobs", "/tasks", "/v1/dead-letters") if "dead" not in path),
        "/v1/jobs?fields=payload,result",
        "/jobs",
        "/tasks",
        f"/v1/jobs?ids={ids['done']},{ids['dead']}&fields=payload,result",
        "/v1/dead-letters?fields=payload,result",
        "/v1/dead-letters/groups",
        "/v1/dead-letters/export",
        f"/v1/jobs/{ids['schedule']}",
        "/v1/schedules",
        f"/v1/schedules/{ids['schedule']}",
        "/v1/events/paid",
        "/v1/events",
        "/v1/overview",
        "/v1/attention",
        f"/v1/jobs/{ids['done']}/events",
        f"/v1/jobs/{ids['dead']}/events",
    ]


async def test_a_viewer_sees_no_data_of_users_on_any_route(guarded: ApiEnvironment) -> None:
    ids = await stage_jobs(guarded)
    viewer = await token(guarded, role="viewer")
    everything = ""
    for path in reads(ids):
        full = await guarded.client.get(path)
        answer = await guarded.client.get(path, headers=viewer)
        assert answer.status_code in {full.status_code, 403}, (path, answer.text)
        assert CANARY not in answer.text, path
        assert SECRET not in answer.text, path
        assert (CANARY in full.text) <= (REDACTED in answer.text), path
        everything += answer.text
    assert everything.count(REDACTED) > 20
    job = body_of(await guarded.client.get(f"/v1/jobs/{ids['dead']}", headers=viewer))
    assert job["payload"] == REDACTED
    assert job["error"] == {"kind": "OSError", "message": REDACTED, "traceback": REDACTED}


async def test_an_operator_sees_payloads_but_not_the_secrets_in_them(guarded: ApiEnvironment) -> None:
    ids = await stage_jobs(guarded)
    operator = await token(guarded, role="operator")
    for path in reads(ids):
        full = await guarded.client.get(path)
        answer = await guarded.client.get(path, headers=operator)
        assert SECRET not in answer.text.replace(f"'{SECRET}'", ""), path
        assert (CANARY in full.text) == (CANARY in answer.text) or answer.status_code == 403, path
    job = body_of(await guarded.client.get(f"/v1/jobs/{ids['done']}", headers=operator))
    shown = {"to": CANARY, "smtp": {"Password": REDACTED, "url": "smtp://me:***@mail"}, "max_tokens": 7}
    assert job["payload"] == job["result"] == job["on_failure"]["payload"] == shown
    assert job["meta"] == {"api_key": REDACTED}


@pytest.mark.parametrize("fields", [{"role": "submitter"}, {"role": "viewer", "actions": ["secrets.read"]}])
async def test_with_the_action_everything_is_shown(guarded: ApiEnvironment, fields: dict[str, Any]) -> None:
    ids = await stage_jobs(guarded)
    headers = await token(guarded, **fields)
    job = body_of(await guarded.client.get(f"/v1/jobs/{ids['done']}", headers=headers))
    assert job["payload"] == PAYLOAD


async def test_a_worker_gets_the_payload_of_its_job(guarded: ApiEnvironment) -> None:
    await guarded.submit(type="mail", payload=PAYLOAD)
    worker = await token(guarded, role="worker")
    request = {"worker_id": "ada", "boot_id": "b", "max": 1, "queues": ["default"]}
    (job,) = body_of(await guarded.client.post("/v1/leases:claim", json=request, headers=worker))["jobs"]
    assert job["payload"] == PAYLOAD


async def test_a_redacted_payload_cannot_be_written_back(guarded: ApiEnvironment) -> None:
    job = await guarded.submit(type="mail", payload=PAYLOAD, delay=60)
    operator = await token(guarded, role="operator")
    seen = body_of(await guarded.client.get(f"/v1/jobs/{job['id']}", headers=operator))["payload"]
    for verb, path in (("PATCH", ""), ("POST", "/duplicate"), ("POST", "/retry")):
        answer = await guarded.client.request(
            verb, f"/v1/jobs/{job['id']}{path}", json={"payload": seen}, headers=operator
        )
        assert fields_of(problem_of(answer, 422)) == {"payload"}, path
    changed = await guarded.client.patch(f"/v1/jobs/{job['id']}", json={"priority": 9}, headers=operator)
    assert body_of(changed)["priority"] == 9
    assert (await guarded.get(job["id"]))["payload"] == PAYLOAD


@pytest.mark.parametrize(
    "path", ["/v1/jobs?q=error:canary", "/v1/jobs:count?q=-error:canary", "/v1/suggest?field=error"]
)
async def test_messages_of_errors_cannot_be_guessed_by_searching(guarded: ApiEnvironment, path: str) -> None:
    viewer = await token(guarded, role="viewer")
    assert "payloads.read" in problem_of(await guarded.client.get(path, headers=viewer), 403)["detail"]
    body_of(await guarded.client.get(path))


async def test_operations_do_not_search_in_errors_either(guarded: ApiEnvironment) -> None:
    headers = await token(guarded, actions=["jobs.operate", "jobs.retry", "jobs.read"])
    request = {"action": "retry", "q": "error:canary", "dry_run": True}
    problem_of(await guarded.client.post("/v1/operations", json=request, headers=headers), 403)


def forms_of(kind: Any) -> Iterator[type[Struct]]:  # noqa: ANN401 - any annotation
    """Return all forms that an annotation mentions, those within forms too."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        yield kind
        for field in msgspec.structs.fields(kind):
            if field.type is not kind:
                yield from forms_of_once(field.type)
    for part in typing.get_args(kind):
        yield from forms_of_once(part)


_seen: set[Any] = set()


def forms_of_once(kind: Any) -> Iterator[type[Struct]]:  # noqa: ANN401 - any annotation
    key = repr(kind)
    if key not in _seen:
        _seen.add(key)
        yield from forms_of(kind)


#: Words by which a text of a handler is named, and forms in which such a field is Rota's own.
SUSPECT = {"message", "traceback", "progress", "log_tail", "payload", "result", "encrypted"}
OURS = {"Problem", "FieldError", "DeliveryForm", "WorkflowForm", "WorkflowDetail"}


def test_every_text_of_a_handler_in_any_answer_is_redacted() -> None:
    _seen.clear()
    forms = {
        form
        for route in ROUTES
        if route.action is not Action.WORK
        for body in route.responses.values()
        for form in forms_of(body)
        if form not in OWN
    }
    assert len(forms) > 50
    for form in forms:
        known = next((names for kind, names in TEXTS.items() if issubclass(form, kind)), ())
        for field in msgspec.structs.fields(form):
            if field.name in SUSPECT and form.__name__ not in OURS and field.name not in known:
                assert Raw in {field.type, *typing.get_args(field.type)}, f"{form.__name__}.{field.name}"


@pytest.mark.parametrize(
    ("key", "is_secret"),
    [
        ("password", True), ("DB_Password", True), ("db-password", True), ("passwords", False), ("token", True),
        ("access_token", True), ("max_tokens", False), ("Authorization", True), ("X-Api-Key", True), ("user", False),
        ("client.secret", True), ("secretary", False), ("Set-Cookie", True),
    ],
)  # fmt: skip
def test_keys_are_secret_by_patterns(key: str, is_secret: bool) -> None:  # noqa: FBT001 - a table
    assert SecretKeys().match(key) is is_secret


def test_patterns_have_stars_at_either_end() -> None:
    keys = SecretKeys(("*pin*", "card*"))
    assert [name for name in ("the_pin_code", "card_number", "my_card", "spin") if keys.match(name)] == [
        "the_pin_code", "card_number", "spin",
    ]  # fmt: skip
    assert not SecretKeys(()).match("password")


def test_nothing_is_copied_without_a_secret() -> None:
    data = {"a": [1, {"b": "c"}], "password": None}
    assert SecretKeys().redact(data) is data


async def test_a_client_that_may_not_see_results_is_refused_and_gets_no_mark_as_a_result(
    guarded: ApiEnvironment,
) -> None:
    job_id = job_id_of((await stage_jobs(guarded))["done"])
    viewer = (await token(guarded, role="viewer"))["Authorization"].removeprefix("Bearer ")
    client = client_of(guarded, viewer)
    with pytest.raises(Refused, match=r"payloads\.read"):
        await client.wait(job_id, timedelta(seconds=1))
    graph = {"name": "g", "nodes": [{"name": "a", "type": "mail"}]}
    workflow = body_of(await guarded.client.post("/v1/workflows", json=graph), 201)
    report = {**await lease(guarded), "outcome": "succeeded", "result": PAYLOAD}
    body_of(await guarded.client.post("/v1/leases:settle", json={"reports": [report]}))
    with pytest.raises(Refused, match=r"payloads\.read"):
        await client.workflow_results(WorkflowId(job_id_of(workflow["id"])))
    submitter = (await token(guarded, role="submitter"))["Authorization"].removeprefix("Bearer ")
    assert CANARY in str((await client_of(guarded, submitter).wait(job_id, timedelta(seconds=1))).result)


def client_of(env: ApiEnvironment, secret: str) -> Client:
    transport = Transport(["http://localhost"], token=secret, http_transport=httpx.ASGITransport(app=env.api))
    return Client(transport, clock=env.clock)

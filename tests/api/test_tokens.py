"""Stored tokens: secrets, expiry, revocation, queues, and the limit on wrong ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from api.environment import ApiEnvironment, api_environment, body_of, fields_of, problem_of
from builders import HOUR
from rota.api import ApiKey, ApiSettings
from rota.api.token_cache import FRESH_SECONDS, MOST_FAILURES, WINDOW_SECONDS, FailureLimit, TokenCache
from rota.core.access import TokenDraft, id_of_secret, secret_of
from rota.ports.client import Actor

ADMIN = {"Authorization": "Bearer bootstrap-0123456789abcdef"}
WRONG = secret_of("aaaaaaaa", "b" * 32)


@pytest.fixture
async def guarded() -> AsyncIterator[ApiEnvironment]:
    async with api_environment(ApiSettings(keys=(ApiKey.of("token", "bootstrap-0123456789abcdef"),))) as env:
        yield env


async def given(env: ApiEnvironment, **fields: Any) -> dict[str, str]:  # noqa: ANN401 - any field
    """Create a token and give the header that presents it."""
    answer = await env.client.post("/v1/tokens", json={"name": "ci", **fields}, headers=ADMIN)
    return bearer(body_of(answer, 201)["secret"])


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


async def test_a_secret_is_long_has_a_checksum_and_is_nowhere_in_the_store(guarded: ApiEnvironment) -> None:
    answer = body_of(await guarded.client.post("/v1/tokens", json={"name": "ci", "role": "viewer"}, headers=ADMIN), 201)
    secret: str = answer["secret"]
    prefix, token_id, random, _ = secret.split("_")
    assert (prefix, token_id, len(random) * 5 >= 128) == ("rota", answer["id"], True)
    assert id_of_secret(secret) == token_id
    assert id_of_secret(secret[:-1] + ("0" if secret[-1] != "0" else "1")) is None
    (stored,) = await guarded.store.tokens()
    assert random not in repr(stored)


async def test_a_token_opens_what_its_role_has_and_the_refusal_names_the_action(guarded: ApiEnvironment) -> None:
    headers = await given(guarded, role="viewer")
    body_of(await guarded.client.get("/v1/jobs", headers=headers))
    refusal = problem_of(await guarded.client.post("/v1/jobs", json={}, headers=headers), 403)
    assert "jobs.submit" in refusal["detail"]


async def test_wrong_expired_and_revoked_tokens_are_refused_alike(guarded: ApiEnvironment) -> None:
    expired = await given(guarded, name="a", role="admin", expires="1h")
    revoked = await given(guarded, name="b", role="admin")
    body_of(await guarded.client.get("/v1/jobs", headers=expired))
    body_of(await guarded.client.get("/v1/jobs", headers=revoked))
    guarded.clock.move(HOUR)
    body_of(await guarded.client.delete("/v1/tokens/b", headers=ADMIN))
    answers = [
        await guarded.client.get("/v1/jobs", headers=headers) for headers in ({}, bearer(WRONG), expired, revoked)
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1


async def test_the_id_of_a_token_is_not_enough(guarded: ApiEnvironment) -> None:
    headers = await given(guarded, role="viewer")
    token_id = id_of_secret(headers["Authorization"].removeprefix("Bearer "))
    forged = bearer(secret_of(str(token_id), "b" * 32))
    problem_of(await guarded.client.get("/v1/jobs", headers=forged), 401)
    body_of(await guarded.client.get("/v1/jobs", headers=headers))
    statuses = [(await guarded.client.get("/v1/jobs", headers=forged)).status_code for _ in range(MOST_FAILURES)]
    assert statuses == [401] * (MOST_FAILURES - 1) + [429]
    body_of(await guarded.client.get("/v1/jobs", headers=headers))


async def test_a_wrong_stored_token_is_refused_where_none_is_required(env: ApiEnvironment) -> None:
    problem_of(await env.client.get("/v1/jobs", headers=bearer(WRONG)), 401)
    body_of(await env.client.get("/v1/jobs"))
    assert (await env.client.get("/livez", headers=bearer(WRONG))).status_code == 200


async def test_a_revocation_by_another_process_is_seen_within_five_seconds(guarded: ApiEnvironment) -> None:
    assert FRESH_SECONDS < 5
    _, secret = await guarded.engine.tokens.create(TokenDraft("ci", "viewer"), Actor("ann"))
    now = 0.0
    cache = TokenCache(guarded.engine, lambda: now)
    assert await cache.look_up(secret.encode()) is not None
    await guarded.engine.tokens.revoke("ci", Actor("ann"))
    assert cache.cached(secret.encode()) is not None
    now = FRESH_SECONDS + 0.1
    assert cache.cached(secret.encode()) is None
    assert await cache.look_up(secret.encode()) is None


async def test_after_a_rotation_the_old_secret_ends_with_the_overlap(guarded: ApiEnvironment) -> None:
    old = await given(guarded, role="viewer")
    answer = await guarded.client.post("/v1/tokens/ci/rotate", json={"overlap": "10m"}, headers=ADMIN)
    new = bearer(body_of(answer, 201)["secret"])
    for headers in (old, new):
        body_of(await guarded.client.get("/v1/jobs", headers=headers))
    guarded.clock.move(timedelta(minutes=11))
    problem_of(await guarded.client.get("/v1/jobs", headers=old), 401)
    body_of(await guarded.client.get("/v1/jobs", headers=new))
    problem_of(await guarded.client.post("/v1/tokens", json={"name": "ci", "role": "viewer"}, headers=ADMIN), 409)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"role": "root"}, "role"),
        ({}, "role"),
        ({"actions": ["jobs.fly"]}, "actions"),
        ({"actions": ["public"]}, "actions"),
        ({"role": "viewer", "queues": ["a*b"]}, "queues"),
        ({"role": "viewer", "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
        ({"role": "viewer", "expires": "1h", "expires_at": "2999-01-01T00:00:00Z"}, "expires"),
    ],
)
async def test_a_wrong_draft_names_the_field(guarded: ApiEnvironment, fields: dict[str, Any], field: str) -> None:
    answer = await guarded.client.post("/v1/tokens", json={"name": "x", **fields}, headers=ADMIN)
    assert fields_of(problem_of(answer, 422)) == {field}
    assert await guarded.store.tokens() == []


async def test_a_token_cannot_hand_out_or_take_over_more_than_it_has(guarded: ApiEnvironment) -> None:
    await given(guarded, name="root", role="admin")
    deputy = await given(guarded, name="deputy", actions=["tokens.edit", "work"], queues=["mail-*"])
    for fields, status in (
        ({"role": "admin", "queues": ["mail-a"]}, 403),
        ({"role": "worker"}, 403),
        ({"role": "worker", "queues": ["mail-a", "pay"]}, 403),
        ({"role": "worker", "queues": ["mail-a", "mail-b*"]}, 201),
    ):
        answer = await guarded.client.post("/v1/tokens", json={"name": "x", **fields}, headers=deputy)
        assert answer.status_code == status, answer.text
    problem_of(await guarded.client.post("/v1/tokens/root/rotate", headers=deputy), 403)
    problem_of(await guarded.client.delete("/v1/tokens/root", headers=deputy), 403)


async def test_each_item_of_a_batch_is_checked_against_the_queues(guarded: ApiEnvironment) -> None:
    headers = await given(guarded, role="submitter", queues=["mail-*"])
    jobs = [{"queue": "mail-a"}, {"queue": "pay"}, {"queue": "mail-a", "on_success": {"type": "x", "queue": "pay"}}]
    answer = body_of(await guarded.client.post("/v1/jobs:batch", json={"jobs": jobs}, headers=headers))
    assert [item["status"] for item in answer["items"]] == [201, 403, 403]
    for job in jobs[1:]:
        assert "pay" in problem_of(await guarded.client.post("/v1/jobs", json=job, headers=headers), 403)["detail"]
    cron = {"cron": "* * * * *", "queue": "pay"}
    problem_of(await guarded.client.post("/v1/jobs", json=cron, headers=headers), 403)


async def test_a_limited_token_cannot_wait_for_a_job_of_another_queue(guarded: ApiEnvironment) -> None:
    """Such a job would be handed the result of a job that its submitter may not read."""
    headers = await given(guarded, role="submitter", queues=["mail"])
    mine, other = [
        body_of(await guarded.client.post("/v1/jobs", json={"queue": name}, headers=ADMIN), 201)["id"]
        for name in ("mail", "pay")
    ]
    stolen = {"queue": "mail", "after": [other], "takes": "result"}
    unknown = {"queue": "mail", "after": ["0" * len(other)], "takes": "result"}
    details = [
        problem_of(await guarded.client.post("/v1/jobs", json=job, headers=headers), 422)["detail"]
        for job in (stolen, unknown)
    ]
    assert details[0].replace(other, "") == details[1].replace("0" * len(other), "")
    jobs = [stolen, {"queue": "mail", "after": [mine], "takes": "result"}]
    answer = body_of(await guarded.client.post("/v1/jobs:batch", json={"jobs": jobs}, headers=headers))
    assert [item["status"] for item in answer["items"]] == [422, 201]


async def test_jobs_of_other_queues_are_unknown_to_a_limited_token(guarded: ApiEnvironment) -> None:
    headers = await given(guarded, role="operator", queues=["mail"])
    mine, other = [
        body_of(await guarded.client.post("/v1/jobs", json={"queue": name}, headers=ADMIN), 201)["id"]
        for name in ("mail", "pay")
    ]
    listed = body_of(await guarded.client.get("/v1/jobs", headers=headers))["items"]
    assert [job["id"] for job in listed] == [mine]
    listed = body_of(await guarded.client.get(f"/v1/jobs?ids={mine},{other}", headers=headers))["items"]
    assert [job["id"] for job in listed] == [mine]
    for method, path in (("GET", ""), ("GET", "/attempts"), ("POST", "/cancel"), ("DELETE", ""), ("GET", "/result")):
        problem_of(await guarded.client.request(method, f"/v1/jobs/{other}{path}", headers=headers), 404)
    answer = body_of(await guarded.client.post("/v1/jobs:cancel", json={"ids": [other, mine]}, headers=headers))
    assert [item["status"] for item in answer["items"]] == [404, 200]
    for path in ("/v1/jobs?queue=pay", "/v1/queues/pay", "/v1/events/stream", "/v1/dead-letters/groups"):
        problem_of(await guarded.client.get(path, headers=headers), 403)
    queues = body_of(await guarded.client.get("/v1/queues", headers=headers))["items"]
    assert {queue["name"] for queue in queues} <= {"mail"}


async def test_a_limited_worker_claims_renews_and_settles_in_its_queues_only(guarded: ApiEnvironment) -> None:
    headers = await given(guarded, role="worker", queues=["mail"])
    post = guarded.client.post
    for queue in ("mail", "pay"):
        body_of(await post("/v1/jobs", json={"queue": queue}, headers=ADMIN), 201)
    claim = {"worker_id": "w", "boot_id": "b", "max": 1}
    problem_of(await post("/v1/leases:claim", json={**claim, "queues": ["mail", "pay"]}, headers=headers), 403)
    problem_of(await guarded.client.get("/next-job?queue=pay", headers=headers), 403)
    own = body_of(await post("/v1/leases:claim", json={**claim, "queues": ["mail"]}, headers=headers))
    others = body_of(await post("/v1/leases:claim", json={**claim, "queues": ["pay"]}, headers=ADMIN))
    (mine,), (other,) = own["jobs"], others["jobs"]
    # Even with the token of the lease.
    tokens = own["lease_tokens"] | others["lease_tokens"]
    leases = [{"id": job["id"], "fence": job["fence"], "lease_token": tokens[job["id"]]} for job in (mine, other)]
    renewals = [{**lease, "lease": 60} for lease in leases]
    assert body_of(await post("/v1/leases:renew", json={"renewals": renewals}, headers=headers))["lost"] == [
        other["id"]
    ]
    step = {**leases[1], "key": "k", "act": "intend"}
    problem_of(await post("/v1/leases:step", json=step, headers=headers), 404)
    reports = [{**lease, "outcome": "succeeded"} for lease in leases]
    settled = body_of(await post("/v1/leases:settle", json={"reports": reports}, headers=headers))
    assert (settled["settled"], settled["refused"]) == ([mine["id"]], [other["id"]])
    completion = {"worker_id": "w", "success": True}
    problem_of(await post(f"/jobs/{other['id']}/complete", json=completion, headers=headers), 404)


async def test_a_limited_worker_closes_no_limits_but_those_of_its_queue_and_key(guarded: ApiEnvironment) -> None:
    headers = await given(guarded, role="worker", queues=["mail"])
    post = guarded.client.post
    for name in ("key:pay-42", "task:send", "queue:pay", "key:mine", "queue:mail"):
        job = {"type": "send", "queue": "mail", "concurrency_key": "mine"}
        body_of(await post("/v1/jobs", json=job, headers=ADMIN), 201)
        claim = {"worker_id": "w", "boot_id": "b", "max": 1, "queues": ["mail"]}
        reply = body_of(await post("/v1/leases:claim", json=claim, headers=headers))
        (mine,) = reply["jobs"]
        lease = {"id": mine["id"], "fence": mine["fence"], "lease_token": reply["lease_tokens"][mine["id"]]}
        report = {**lease, "outcome": "snoozed", "delay": 60, "limit": name}
        body_of(await post("/v1/leases:settle", json={"reports": [report]}, headers=headers))
        limit = body_of(await guarded.client.get(f"/v1/limits/{name}", headers=ADMIN))
        assert (limit["closed_until"] is not None) == (name in {"key:mine", "queue:mail"}), name
        await guarded.engine.limits.open(name, Actor("ann"))


@pytest.mark.parametrize("headers", [bearer(WRONG), bearer("0" * 32), bearer(""), {"Authorization": "Basic YTpi"}])
async def test_wrong_tokens_are_limited_per_source_and_counted(
    guarded: ApiEnvironment, headers: dict[str, str]
) -> None:
    good = await given(guarded, role="viewer")
    body_of(await guarded.client.get("/v1/jobs", headers=good))
    statuses = [(await guarded.client.get("/v1/jobs", headers=headers)).status_code for _ in range(60)]
    assert (await guarded.client.get("/livez", headers={"Authorization": "Basic YTpi"})).status_code == 200
    assert statuses == [401] * MOST_FAILURES + [429] * (60 - MOST_FAILURES)
    for valid in (good, ADMIN):
        body_of(await guarded.client.get("/v1/jobs", headers=valid))
    metrics = (await guarded.client.get("/metrics", headers={**ADMIN, "Accept": "text/plain"})).text
    assert 'reason="too_many_failures"} 10' in metrics
    assert f'reason="unauthorized"}} {MOST_FAILURES}' in metrics


def test_the_limit_on_failures_ends_with_its_window() -> None:
    now = 100.0
    limit = FailureLimit(lambda: now)
    for _ in range(MOST_FAILURES):
        limit.add("here")
    assert limit.is_reached("here")
    assert not limit.is_reached("there")
    now += WINDOW_SECONDS
    assert not limit.is_reached("here")


async def test_a_token_hands_out_nothing_that_outlives_it(guarded: ApiEnvironment) -> None:
    now = guarded.clock.moment
    soon, later = now + timedelta(hours=1), now + timedelta(hours=2)
    post = guarded.client.post
    await given(guarded, name="lasting", role="viewer")
    mine = await given(guarded, name="mine", role="admin", expires_at=soon.isoformat())
    for end in ({}, {"expires_at": later.isoformat()}):
        refused = await post("/v1/tokens", json={"name": "next", "role": "viewer", **end}, headers=mine)
        assert soon.isoformat() in problem_of(refused, 403)["fix"]
        user = {"name": "ada", "role": "viewer", "password": "correct horse battery", **end}
        problem_of(await post("/v1/users", json=user, headers=mine), 403)
    body_of(await post("/v1/users", json={"name": "bob", "role": "viewer"}, headers=ADMIN), 201)
    problem_of(await post("/v1/users/bob/password", json={"password": "correct horse battery"}, headers=mine), 403)
    problem_of(await post("/v1/tokens/lasting/rotate", headers=mine), 403)
    shorter = {"name": "next", "role": "viewer", "expires_at": soon.isoformat()}
    body_of(await post("/v1/tokens", json=shorter, headers=mine), 201)
    # To end another's token or user is no way to outlive one's own.
    body_of(await guarded.client.delete("/v1/tokens/lasting", headers=mine))
    body_of(await guarded.client.delete("/v1/users/bob", headers=mine))
    body_of(await post("/v1/tokens/mine/rotate", headers=mine), 201)


async def test_the_ledger_names_the_token_and_the_surface(guarded: ApiEnvironment) -> None:
    headers = await given(guarded, name="ann", role="operator")
    for surface in ({}, {"Rota-Client": "cli"}, {"Rota-Client": "ui"}):
        await guarded.client.post("/v1/queues/mail/pause", headers={**headers, **surface})
    entries = body_of(await guarded.client.get("/v1/events", headers=headers))["items"][:3]
    assert [(entry["actor"], entry["surface"]) for entry in entries] == [("ann", "ui"), ("ann", "cli"), ("ann", "api")]
    answer = await guarded.client.post("/v1/queues/mail/pause", headers={**headers, "Rota-Client": "root\x1b"})
    assert fields_of(problem_of(answer, 422)) == {"Rota-Client"}


async def test_an_operation_needs_the_action_for_a_single_job_too(guarded: ApiEnvironment) -> None:
    headers = await given(guarded, actions=["jobs.operate", "jobs.retry"])
    body_of(
        await guarded.client.post(
            "/v1/operations", json={"action": "retry", "q": "status:dead", "dry_run": True}, headers=headers
        )
    )
    for action, needed in (("cancel", "jobs.cancel"), ("delete", "dead_letters.discard")):
        wanted = {"action": action, "q": "status:dead", "dry_run": True}
        refusal = problem_of(await guarded.client.post("/v1/operations", json=wanted, headers=headers), 403)
        assert needed in refusal["detail"]


async def test_a_count_is_limited_to_the_queues_of_a_token(guarded: ApiEnvironment) -> None:
    for queue in ("mail", "mail", "pay"):
        body_of(await guarded.client.post("/v1/jobs", json={"queue": queue}, headers=ADMIN), 201)
    headers = await given(guarded, role="viewer", queues=["mail"])
    assert body_of(await guarded.client.get("/v1/jobs:count", headers=headers))["count"] == 2
    problem_of(await guarded.client.get("/v1/suggest", params={"field": "type"}, headers=headers), 403)

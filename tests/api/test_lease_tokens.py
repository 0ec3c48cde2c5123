"""Worker identity: what worker B can do with a job of worker A, by every route of workers. It can do nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from api.environment import ApiEnvironment, api_environment, body_of, problem_of, until
from rota.api import ApiKey, ApiSettings
from rota.core.access import TokenDraft
from rota.core.ids import JobId, to_number
from rota.core.lifecycle import State
from rota.ports.client import Actor

ROOT = "0123456789abcdef0123456789abcdef"
ADMIN = {"Authorization": f"Bearer {ROOT}"}
Lease = dict[str, Any]


@pytest.fixture
async def env() -> AsyncIterator[ApiEnvironment]:
    async with api_environment(ApiSettings(keys=(ApiKey.of("token", ROOT),))) as one:
        yield one


async def worker(env: ApiEnvironment, name: str) -> dict[str, str]:
    _, secret = await env.engine.tokens.create(TokenDraft(name, "worker"), Actor("ann"))
    return {"Authorization": f"Bearer {secret}"}


async def claimed(env: ApiEnvironment, by: dict[str, str], name: str, **more: object) -> list[Lease]:
    """Claim a job, and give what identifies each lease."""
    body = {"worker_id": name, "boot_id": f"boot-of-{name}", **more}
    reply = body_of(await env.client.post("/v1/leases:claim", json=body, headers=by))
    tokens = reply.get("lease_tokens", {})
    return [{"id": job["id"], "fence": job["fence"], "lease_token": tokens[job["id"]]} for job in reply["jobs"]]


async def renewed(env: ApiEnvironment, by: dict[str, str], lease: Lease) -> bool:
    reply = body_of(await env.client.post("/v1/leases:renew", json={"renewals": [lease]}, headers=by))
    assert (lease["id"] in reply["lost"]) != bool(reply["renewed"])
    return bool(reply["renewed"])


async def settled(env: ApiEnvironment, by: dict[str, str], lease: Lease) -> bool:
    report = {"outcome": "succeeded", "result": 1, **lease}
    reply = body_of(await env.client.post("/v1/leases:settle", json={"reports": [report]}, headers=by))
    assert (lease["id"] in reply["refused"]) != bool(reply["settled"])
    return bool(reply["settled"])


async def released(env: ApiEnvironment, by: dict[str, str], lease: Lease) -> bool:
    report = {"outcome": "released", **lease}
    reply = body_of(await env.client.post("/v1/leases:settle", json={"reports": [report]}, headers=by))
    return bool(reply["settled"])


async def stepped(env: ApiEnvironment, by: dict[str, str], lease: Lease) -> bool:
    body = {"key": "pay", "act": "intend", **lease}
    return bool(body_of(await env.client.post("/v1/leases:step", json=body, headers=by))["holds"])


async def concluded(env: ApiEnvironment, by: dict[str, str], lease: Lease) -> bool:
    body = {"key": "pay", "act": "conclude", "outcome": "1", **lease}
    return bool(body_of(await env.client.post("/v1/leases:step", json=body, headers=by))["holds"])


async def withdrawn(env: ApiEnvironment, by: dict[str, str], lease: Lease) -> bool:
    body = {"key": "pay", "act": "withdraw", **lease}
    return bool(body_of(await env.client.post("/v1/leases:step", json=body, headers=by))["holds"])


async def waited(env: ApiEnvironment, by: dict[str, str], lease: Lease) -> bool:
    body = {"key": "pause", "act": "wait", "kind": "sleep", "span": 1, **lease}
    return bool(body_of(await env.client.post("/v1/leases:step", json=body, headers=by))["holds"])


async def read(env: ApiEnvironment, by: dict[str, str], lease: Lease) -> bool:
    return bool(body_of(await env.client.post("/v1/leases:input", json=lease, headers=by))["holds"])


Use = Callable[[ApiEnvironment, dict[str, str], Lease], Awaitable[bool]]
USES: list[Use] = [renewed, settled, released, stepped, concluded, withdrawn, waited, read]
FORGERIES: dict[str, Callable[[Lease, Lease], Lease]] = {
    "none": lambda a, _: {"id": a["id"], "fence": a["fence"]},
    "empty": lambda a, _: {**a, "lease_token": ""},
    "guessed": lambda a, _: {**a, "lease_token": "0" * 32},
    "of another job": lambda a, b: {**a, "lease_token": b["lease_token"]},
    "for another fence": lambda a, _: {**a, "fence": a["fence"] + 1},
    "in capitals": lambda a, _: {**a, "lease_token": a["lease_token"].upper() + "Z"},
    "not ASCII": lambda a, _: {**a, "lease_token": "é"},
}


@pytest.mark.parametrize("forgery", list(FORGERIES))
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
async def test_another_worker_cannot_use_a_lease(env: ApiEnvironment, use: Use, forgery: str) -> None:
    first, second = await worker(env, "a"), await worker(env, "b")
    await env.client.post("/v1/jobs", json={"type": "echo"}, headers=ADMIN)
    (mine,) = await claimed(env, first, "a")
    await env.client.post("/v1/jobs", json={"type": "echo"}, headers=ADMIN)
    (theirs,) = await claimed(env, second, "b")
    before = (await env.store.get([JobId(to_number(mine["id"]))]))[0]
    assert not await use(env, second, FORGERIES[forgery](mine, theirs))
    assert (await env.store.get([before.id]))[0] == before
    assert await env.engine.steps.all(before.id) == []


@pytest.mark.parametrize("use", [renewed, settled, released, stepped, waited], ids=lambda use: use.__name__)
async def test_its_own_worker_can(env: ApiEnvironment, use: Use) -> None:
    first = await worker(env, "a")
    await env.client.post("/v1/jobs", json={"type": "echo"}, headers=ADMIN)
    (mine,) = await claimed(env, first, "a")
    assert await use(env, first, mine)


async def test_its_own_worker_may_ask_for_its_input(env: ApiEnvironment) -> None:
    first = await worker(env, "a")
    await env.client.post("/v1/jobs", json={"type": "echo"}, headers=ADMIN)
    (mine,) = await claimed(env, first, "a")
    refused = problem_of(await env.client.post("/v1/leases:input", json=mine, headers=first), 422)
    assert "takes nothing" in refused["detail"]


async def test_the_token_of_an_older_claim_is_refused(env: ApiEnvironment) -> None:
    first, second = await worker(env, "a"), await worker(env, "b")
    await env.client.post("/v1/jobs", json={"type": "echo"}, headers=ADMIN)
    (old,) = await claimed(env, first, "a")
    assert await released(env, first, old)
    (new,) = await claimed(env, second, "b")
    assert new["id"] == old["id"]
    for use in (renewed, settled, stepped, read):
        assert not await use(env, first, old)
        assert not await use(env, first, {**old, "fence": new["fence"]})
    assert await settled(env, second, new)


async def test_no_reader_sees_a_lease_token(env: ApiEnvironment) -> None:
    first = await worker(env, "a")
    await env.client.post("/v1/jobs", json={"type": "echo"}, headers=ADMIN)
    (mine,) = await claimed(env, first, "a")
    for path in (f"/v1/jobs/{mine['id']}", "/v1/jobs", "/jobs", f"/v1/jobs/{mine['id']}/steps", "/v1/workers"):
        assert mine["lease_token"] not in (await env.client.get(path, headers=ADMIN)).text
        assert "lease_token" not in (await env.client.get(path, headers=ADMIN)).text


async def test_a_claim_can_be_repeated_by_its_own_worker_only(env: ApiEnvironment) -> None:
    first, second = await worker(env, "a"), await worker(env, "b")
    await env.client.post("/v1/jobs", json={"type": "echo"}, headers=ADMIN)
    (mine,) = await claimed(env, first, "a", claim_id="c1")
    assert await claimed(env, first, "a", claim_id="c1") == [mine]
    assert await claimed(env, second, "a", claim_id="c1") == [], "another token"
    assert await claimed(env, first, "b", claim_id="c1") == [], "another worker"


async def test_the_older_path_does_not_settle_what_a_process_with_a_boot_has_claimed(env: ApiEnvironment) -> None:
    first, second = await worker(env, "a"), await worker(env, "b")
    await env.client.post("/v1/jobs", json={"type": "echo"}, headers=ADMIN)
    (mine,) = await claimed(env, first, "a")
    path = f"/jobs/{mine['id']}/complete"
    for body in (
        {"worker_id": "a", "success": True},
        {"worker_id": "a", "success": True, "fence": mine["fence"]},
        {"fence": mine["fence"], "success": True},
        {"worker_id": "a", "success": True, "boot_id": "http"},
        # Readers of jobs and workers see these.
        {"worker_id": "a", "success": True, "boot_id": "boot-of-a", "fence": mine["fence"]},
        {"worker_id": "a", "success": True, "boot_id": "boot-of-a", "lease_token": "0" * 32},
    ):
        problem_of(await env.client.post(path, json=body, headers=second), 409)
    (job,) = await env.store.get([JobId(to_number(mine["id"]))])
    assert job.state is State.RUNNING
    body = {"worker_id": "a", "success": True, "boot_id": "boot-of-a", "lease_token": mine["lease_token"]}
    body_of(await env.client.post(path, json=body, headers=first))
    # Its end is no secret to its worker, but its payload and result are to others.
    other = {name: value for name, value in body.items() if name != "lease_token"}
    problem_of(await env.client.post(path, json=other, headers=second), 409)


async def test_a_limited_worker_hears_of_no_cancels_in_other_queues(env: ApiEnvironment) -> None:
    first = await worker(env, "a")
    _, secret = await env.engine.tokens.create(TokenDraft("b", "worker", queues=("elsewhere",)), Actor("ann"))
    await env.client.post("/v1/jobs", json={"type": "echo"}, headers=ADMIN)
    (mine,) = await claimed(env, first, "a")

    async def watch(by: dict[str, str]) -> list[Lease]:
        body = {"worker_id": "a", "wait": 30}
        found: list[Lease] = body_of(await env.client.post("/v1/leases:watch", json=body, headers=by))["cancel"]
        return found

    watching = [asyncio.create_task(watch(by)) for by in (first, {"Authorization": f"Bearer {secret}"})]
    waiting = env.api.context.cancel_watch._waiting
    await until(lambda: len(waiting.get("a", ())) == len(watching))
    body_of(await env.client.post(f"/v1/jobs/{mine['id']}/cancel", headers=ADMIN), 202)
    assert [len(await one) for one in watching] == [1, 0]


async def test_the_older_paths_work_by_the_name_of_the_worker(env: ApiEnvironment) -> None:
    first = await worker(env, "a")
    await env.client.post("/v1/jobs", json={"type": "echo"}, headers=ADMIN)
    response = await env.client.get("/next-job?worker_id=a", headers=first)
    job = body_of(response)
    lease = {"id": job["id"], "fence": job["fence"], "lease_token": response.headers["rota-lease-token"]}
    assert await renewed(env, first, lease)
    body = {"worker_id": "a", "success": True}
    assert body_of(await env.client.post(f"/jobs/{job['id']}/complete", json=body, headers=first))["id"] == job["id"]


async def test_a_server_without_a_token_issues_none() -> None:
    async with api_environment() as env:
        await env.client.post("/v1/jobs", json={"type": "echo"}, headers=ADMIN)
        reply = body_of(await env.client.post("/v1/leases:claim", json={"worker_id": "a", "boot_id": "b"}))
        assert "lease_tokens" not in reply
        (job,) = reply["jobs"]
        assert await settled(env, {}, {"id": job["id"], "fence": job["fence"]})

"""The worker protocol over HTTP, and the legacy worker protocol: fenced, repeatable, one result per item."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import msgspec
import pytest

from api.environment import ApiEnvironment, body_of, fields_of, problem_of, served
from builders import HOUR, MINUTE, new_job
from engine.environment import engine_in_memory
from rota.api import create_app
from rota.core.lease import Renewal
from rota.core.lifecycle import State
from rota.core.outcome import Failed, Lost, Released, Snoozed, Stopped, Succeeded, Unknown
from rota.core.settlement import JobError
from rota.ports.client import AttemptReport
from rota.wire.leases import SettleRequest, renewal_form, renewal_of, report_form, report_of


async def test_a_claim_leases_what_was_asked_for(env: ApiEnvironment) -> None:
    await env.submit(type="a", queue="x")
    await env.submit(type="b", queue="x")
    await env.submit(type="a", queue="y")
    jobs = await env.claim("ada", queues=["x"], types=["a"], lease=30)
    assert [(job["type"], job["queue"], job["status"], job["fence"]) for job in jobs] == [("a", "x", "running", 1)]
    assert (jobs[0]["worker_id"], jobs[0]["boot_id"]) == ("ada", "boot")
    assert jobs[0]["lease_until"] == "2026-03-01T12:00:30.123457Z"


async def test_the_same_claim_again_gives_the_same_jobs(env: ApiEnvironment) -> None:
    for _ in range(3):
        await env.submit()
    first = await env.claim(claim_id="c1", max=2)
    again = await env.claim(claim_id="c1", max=2)
    assert [job["id"] for job in again] == [job["id"] for job in first]
    assert len(await env.claim(claim_id="c2")) == 1


async def test_a_claim_waits_until_there_is_work(env: ApiEnvironment) -> None:
    waiting = asyncio.create_task(env.claim(wait=30))
    await env.submit(type="late")
    (job,) = await asyncio.wait_for(waiting, 10)
    assert job["type"] == "late"


async def test_leases_are_renewed_and_lost_ones_named(env: ApiEnvironment) -> None:
    await env.submit()
    (job,) = await env.claim()
    env.clock.move(MINUTE)
    asked = [
        {"id": job["id"], "fence": 1, "lease": 20, "progress": "half"},
        {"id": job["id"], "fence": 2},
        {"id": "0000000000001", "fence": 1},
    ]
    reply = body_of(await env.client.post("/v1/leases:renew", json={"renewals": asked}))
    (renewed,) = reply["renewed"]
    assert (renewed["id"], renewed["until"], renewed["cancel"]) == (job["id"], "2026-03-01T12:01:20.123457Z", False)
    assert reply["lost"] == [job["id"], "0000000000001"]
    (attempt,) = body_of(await env.client.get(f"/v1/jobs/{job['id']}/attempts"))["items"]
    assert attempt["progress"] == "half"


async def test_a_worker_that_waits_is_told_at_once_of_its_cancelled_jobs_and_no_other_is(env: ApiEnvironment) -> None:
    async def watch(worker: str, wait: float) -> list[dict[str, Any]]:
        request = {"worker_id": worker, "wait": wait}
        answer: list[dict[str, Any]] = body_of(await env.client.post("/v1/leases:watch", json=request))["cancel"]
        return answer

    await env.submit()
    (job,) = await env.claim("ada")
    ours, theirs = asyncio.create_task(watch("ada", 30)), asyncio.create_task(watch("bob", 30))
    while len(env.api.context.cancel_watch._waiting) < 2:  # noqa: ASYNC110 - nobody would set an event
        await asyncio.sleep(0)
    await env.client.post(f"/v1/jobs/{job['id']}/cancel", json={})
    assert await asyncio.wait_for(ours, 10) == [{"id": job["id"], "fence": 1}]
    assert not theirs.done()
    env.api.close()
    assert await asyncio.wait_for(theirs, 10) == []
    assert await watch("ada", 0) == []
    assert env.api.context.cancel_watch._waiting == {}


@pytest.mark.parametrize(
    ("outcome", "fields", "status"),
    [
        ("succeeded", {"result": {"n": 1}}, "completed"),
        ("failed", {"error": {"kind": "E", "message": "m"}}, "retrying"),
        ("failed", {"error": {"message": "m"}, "permanent": True}, "dead"),
        ("snoozed", {"delay": "5m"}, "scheduled"),
        ("released", {}, "pending"),
        ("released", {"started": True}, "pending"),
        ("lost", {"error": {"message": "last words"}}, "pending"),
        ("unknown", {"error": {"message": "half done"}}, "dead"),
    ],
)
async def test_an_outcome_is_written_down(
    env: ApiEnvironment, outcome: str, fields: dict[str, Any], status: str
) -> None:
    await env.submit()
    (job,) = await env.claim()
    assert await env.settle(job, outcome, **fields) == {"settled": [job["id"]], "refused": []}
    after = await env.get(job["id"])
    assert after["status"] == status
    if "error" in fields and outcome != "lost":
        assert after["error"]["message"] == fields["error"]["message"]


async def test_a_late_settlement_changes_nothing(env: ApiEnvironment) -> None:
    await env.submit()
    (stale,) = await env.claim("ada", lease=15)
    env.clock.move(HOUR)
    await env.engine.upkeep.reap(10)
    (fresh,) = await env.claim("ben")
    assert await env.settle(stale, "succeeded", result="stale") == {"settled": [], "refused": [stale["id"]]}
    await env.settle(fresh, "succeeded", result="fresh")
    assert await env.settle(stale, "failed", error={}) == {"settled": [], "refused": [stale["id"]]}
    assert (await env.get(stale["id"]))["result"] == "fresh"


@pytest.mark.parametrize(
    ("path", "request_body", "field"),
    [
        ("claim", {}, "worker_id"),
        ("claim", {"worker_id": "a", "boot_id": "b", "max": 0}, "max"),
        ("claim", {"worker_id": "a", "boot_id": "b", "max": 1001}, "max"),
        ("claim", {"worker_id": "a", "boot_id": "b", "queues": []}, "queues"),
        ("claim", {"worker_id": "a", "boot_id": "b", "lease": 0}, "lease"),
        ("claim", {"worker_id": "a", "boot_id": "b", "wait": "long"}, "wait"),
        ("renew", {"renewals": [{"id": "x", "fence": 1}]}, "renewals"),
        ("renew", {"renewals": [{"id": "0000000000001", "fence": 2**63}]}, "renewals"),
        ("settle", {"reports": [{"id": "0000000000001", "fence": 1}]}, "reports"),
        ("settle", {"reports": [{"id": "0000000000001", "fence": 1, "outcome": "odd"}]}, "reports"),
        ("settle", {"reports": [{"id": "0000000000001", "fence": 1, "outcome": "failed"}]}, "reports"),
    ],
)
async def test_a_wrong_request_is_named(
    env: ApiEnvironment, path: str, request_body: dict[str, Any], field: str
) -> None:
    problem = problem_of(await env.client.post(f"/v1/leases:{path}", json=request_body), 422)
    assert field in fields_of(problem)


async def test_a_client_that_disconnects_while_it_waits_leaves_nothing_leased(env: ApiEnvironment) -> None:
    """A worker that hangs up must not take jobs with it: they would only return when its lease ends."""
    async with served(env.api) as address, httpx.AsyncClient(base_url=address) as client:
        request = {"worker_id": "ada", "boot_id": "b", "max": 1, "wait": 60}
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/v1/leases:claim", json=request, timeout=httpx.Timeout(10, read=0.3))
        job = await env.submit()
        (claimed,) = await env.claim("ben", wait=10)
        assert (claimed["id"], claimed["attempts"], "crashes" in claimed) == (job["id"], 1, False)


@pytest.mark.parametrize(("name", "state"), [(None, State.PENDING), ("question-1", State.RUNNING)])
async def test_jobs_leased_to_a_caller_that_left_are_handed_back_unless_it_can_repeat_the_claim(
    name: str | None, state: State
) -> None:
    """A server that was paused woke up, and handed back what its caller had fetched elsewhere and begun."""
    async with engine_in_memory() as engine_env:
        api = create_app(engine_env.engine)
        job = new_job()
        inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        request = {"worker_id": "ada", "boot_id": "b", "max": 1, "wait": 60, "claim_id": name}
        inbox.put_nowait({"type": "http.request", "body": json.dumps(request).encode()})

        async def hang_up() -> None:
            """Go, and be seen to be gone, just before the store gives a job."""
            await engine_env.store.insert([job])
            inbox.put_nowait({"type": "http.disconnect"})
            for _ in range(10):
                await asyncio.sleep(0)

        async def nothing_yet() -> None:
            engine_env.faulty_store.before("claim", hang_up)

        async def send(message: object) -> None:
            del message

        engine_env.faulty_store.before("claim", nothing_yet)
        scope = {
            "type": "http", "method": "POST", "path": "/v1/leases:claim", "query_string": b"", "client": None,
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        }  # fmt: skip
        await api(scope, inbox.get, send)
        assert (await engine_env.look(job)).state is state


OUTCOMES = [
    Succeeded('{"n":123456789012345678901234567890}'),
    Failed(JobError("E", "m", "t"), permanent=True),
    Snoozed(MINUTE),
    Released(started=True),
    Lost(None),
    Lost(JobError("E", "m")),
    Stopped(),
    Unknown(JobError("E", "m")),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda one: type(one).__name__)
def test_a_report_survives_the_wire(outcome: Any) -> None:  # noqa: ANN401 - any outcome
    report = AttemptReport(12345, 7, outcome, "tail")  # type: ignore[arg-type]
    text = msgspec.json.encode(SettleRequest(reports=[report_form(report)]))
    (form,) = msgspec.json.decode(text, type=SettleRequest).reports
    assert report_of(form) == report


def test_a_renewal_survives_the_wire() -> None:
    renewal = Renewal(12345, 7, MINUTE, "half", "tail")  # type: ignore[arg-type]
    assert renewal_of(renewal_form(renewal)) == renewal


# The legacy worker protocol


async def test_a_seed_worker_completes_and_fails(env: ApiEnvironment) -> None:
    await env.submit(type="one")
    await env.submit(type="two")
    first = body_of(await env.client.get("/next-job?worker_id=w&type=one"))
    second = body_of(await env.client.get("/next-job?worker_id=w&type=two&lease=300"))
    assert second["lease_until"] == "2026-03-01T12:05:00.123457Z"
    done = {"worker_id": "w", "status": "SUCCESS", "result": {"ok": 1}, "fence": first["fence"]}
    assert body_of(await env.client.post(f"/jobs/{first['id']}/complete", json=done))["result"] == {"ok": 1}
    failed = {"worker_id": "w", "success": False, "error": "no route to host"}
    after = body_of(await env.client.post(f"/jobs/{second['id']}/complete", json=failed))
    assert (after["status"], after["error"]["message"]) == ("retrying", "no route to host")


async def test_a_seed_worker_that_is_stale_is_refused(env: ApiEnvironment) -> None:
    await env.submit()
    stale = body_of(await env.client.get("/next-job?worker_id=ada"))
    env.clock.move(HOUR)
    await env.engine.upkeep.reap(10)
    fresh = body_of(await env.client.get("/next-job?worker_id=ada"))
    address = f"/jobs/{stale['id']}/complete"
    for wrong in (
        {"worker_id": "ada", "success": True, "fence": stale["fence"]},
        {"worker_id": "eve", "success": True},
        {"worker_id": "eve", "success": True, "fence": fresh["fence"]},
    ):
        assert problem_of(await env.client.post(address, json=wrong), 409)["code"] == "stale_lease"
    assert (await env.get(stale["id"]))["status"] == "running"
    right = {"worker_id": "ada", "success": True, "fence": fresh["fence"]}
    body_of(await env.client.post(address, json=right))
    assert body_of(await env.client.post(address, json=right))["status"] == "completed"
    problem_of(await env.client.post(address, json={**right, "success": False}), 409)


@pytest.mark.parametrize(
    ("completion", "field"),
    [
        ({"worker_id": "w"}, "success"),
        ({"worker_id": "w", "success": True, "status": "failed"}, "status"),
        ({"worker_id": "w", "status": "perhaps"}, "status"),
        ({"success": True}, "worker_id"),
        ({"worker_id": "w", "succes": True}, "succes"),
    ],
)
async def test_a_wrong_completion_is_named(env: ApiEnvironment, completion: dict[str, Any], field: str) -> None:
    await env.submit()
    job = body_of(await env.client.get("/next-job?worker_id=w"))
    problem = problem_of(await env.client.post(f"/jobs/{job['id']}/complete", json=completion), 422)
    assert fields_of(problem) == {field}


async def test_completing_an_unknown_job_is_not_found(env: ApiEnvironment) -> None:
    completion = {"worker_id": "w", "success": True}
    problem_of(await env.client.post("/jobs/0000000000001/complete", json=completion), 404)

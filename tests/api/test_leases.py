"""The worker protocol over HTTP, and the legacy worker protocol: fenced, repeatable, one result per item."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import msgspec
import pytest

from api.staging import Stage, body_of, fields_of, problem_of, served
from building import HOUR, MINUTE, new_job
from engine.staging import bench_in_memory
from rota.api import create_app
from rota.core.lease import Renewal
from rota.core.lifecycle import State
from rota.core.outcome import Failed, Lost, Released, Snoozed, Stopped, Succeeded, Unknown
from rota.core.settlement import JobError
from rota.ports.client import AttemptReport
from rota.wire.leases import SettleRequest, renewal_form, renewal_of, report_form, report_of


async def test_a_claim_leases_what_was_asked_for(stage: Stage) -> None:
    await stage.submit(type="a", queue="x")
    await stage.submit(type="b", queue="x")
    await stage.submit(type="a", queue="y")
    jobs = await stage.claim("ada", queues=["x"], types=["a"], lease=30)
    assert [(job["type"], job["queue"], job["status"], job["fence"]) for job in jobs] == [("a", "x", "running", 1)]
    assert (jobs[0]["worker_id"], jobs[0]["boot_id"]) == ("ada", "boot")
    assert jobs[0]["lease_until"] == "2026-03-01T12:00:30.123457Z"


async def test_the_same_claim_again_gives_the_same_jobs(stage: Stage) -> None:
    for _ in range(3):
        await stage.submit()
    first = await stage.claim(claim_id="c1", max=2)
    again = await stage.claim(claim_id="c1", max=2)
    assert [job["id"] for job in again] == [job["id"] for job in first]
    assert len(await stage.claim(claim_id="c2")) == 1


async def test_a_claim_waits_until_there_is_work(stage: Stage) -> None:
    waiting = asyncio.create_task(stage.claim(wait=30))
    await stage.submit(type="late")
    (job,) = await asyncio.wait_for(waiting, 10)
    assert job["type"] == "late"


async def test_leases_are_renewed_and_lost_ones_named(stage: Stage) -> None:
    await stage.submit()
    (job,) = await stage.claim()
    stage.clock.move(MINUTE)
    asked = [
        {"id": job["id"], "fence": 1, "lease": 20, "progress": "half"},
        {"id": job["id"], "fence": 2},
        {"id": "0000000000001", "fence": 1},
    ]
    reply = body_of(await stage.client.post("/v1/leases:renew", json={"renewals": asked}))
    (renewed,) = reply["renewed"]
    assert (renewed["id"], renewed["until"], renewed["cancel"]) == (job["id"], "2026-03-01T12:01:20.123457Z", False)
    assert reply["lost"] == [job["id"], "0000000000001"]
    (attempt,) = body_of(await stage.client.get(f"/v1/jobs/{job['id']}/attempts"))["items"]
    assert attempt["progress"] == "half"


async def test_a_worker_that_waits_is_told_at_once_of_its_cancelled_jobs_and_no_other_is(stage: Stage) -> None:
    async def watch(worker: str, wait: float) -> list[dict[str, Any]]:
        request = {"worker_id": worker, "wait": wait}
        told: list[dict[str, Any]] = body_of(await stage.client.post("/v1/leases:watch", json=request))["cancel"]
        return told

    await stage.submit()
    (job,) = await stage.claim("ada")
    ours, theirs = asyncio.create_task(watch("ada", 30)), asyncio.create_task(watch("bob", 30))
    while len(stage.api.context.cancel_watch._waiting) < 2:  # noqa: ASYNC110 - nobody would set an event
        await asyncio.sleep(0)
    await stage.client.post(f"/v1/jobs/{job['id']}/cancel", json={})
    assert await asyncio.wait_for(ours, 10) == [{"id": job["id"], "fence": 1}]
    assert not theirs.done()
    stage.api.close()
    assert await asyncio.wait_for(theirs, 10) == []
    assert await watch("ada", 0) == []
    assert stage.api.context.cancel_watch._waiting == {}


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
async def test_an_outcome_is_written_down(stage: Stage, outcome: str, fields: dict[str, Any], status: str) -> None:
    await stage.submit()
    (job,) = await stage.claim()
    assert await stage.settle(job, outcome, **fields) == {"settled": [job["id"]], "refused": []}
    after = await stage.get(job["id"])
    assert after["status"] == status
    if "error" in fields and outcome != "lost":
        assert after["error"]["message"] == fields["error"]["message"]


async def test_a_late_settlement_changes_nothing(stage: Stage) -> None:
    await stage.submit()
    (stale,) = await stage.claim("ada", lease=15)
    stage.clock.move(HOUR)
    await stage.engine.upkeep.reap(10)
    (fresh,) = await stage.claim("ben")
    assert await stage.settle(stale, "succeeded", result="stale") == {"settled": [], "refused": [stale["id"]]}
    await stage.settle(fresh, "succeeded", result="fresh")
    assert await stage.settle(stale, "failed", error={}) == {"settled": [], "refused": [stale["id"]]}
    assert (await stage.get(stale["id"]))["result"] == "fresh"


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
async def test_a_wrong_request_is_named(stage: Stage, path: str, request_body: dict[str, Any], field: str) -> None:
    problem = problem_of(await stage.client.post(f"/v1/leases:{path}", json=request_body), 422)
    assert field in fields_of(problem)


async def test_a_client_that_disconnects_while_it_waits_leaves_nothing_leased(stage: Stage) -> None:
    """A worker that hangs up must not take jobs with it: they would only return when its lease ends."""
    async with served(stage.api) as address, httpx.AsyncClient(base_url=address) as client:
        request = {"worker_id": "ada", "boot_id": "b", "max": 1, "wait": 60}
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/v1/leases:claim", json=request, timeout=httpx.Timeout(10, read=0.3))
        job = await stage.submit()
        (claimed,) = await stage.claim("ben", wait=10)
        assert (claimed["id"], claimed["attempts"], "crashes" in claimed) == (job["id"], 1, False)


@pytest.mark.parametrize(("name", "state"), [(None, State.PENDING), ("question-1", State.RUNNING)])
async def test_jobs_leased_to_a_caller_that_left_are_handed_back_unless_it_can_repeat_the_claim(
    name: str | None, state: State
) -> None:
    """A server that was paused woke up, and handed back what its caller had fetched elsewhere and begun."""
    async with bench_in_memory() as bench:
        api = create_app(bench.engine)
        job = new_job()
        inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        request = {"worker_id": "ada", "boot_id": "b", "max": 1, "wait": 60, "claim_id": name}
        inbox.put_nowait({"type": "http.request", "body": json.dumps(request).encode()})

        async def hang_up() -> None:
            """Go, and be seen to be gone, just before the store gives a job."""
            await bench.store.insert([job])
            inbox.put_nowait({"type": "http.disconnect"})
            for _ in range(10):
                await asyncio.sleep(0)

        async def nothing_yet() -> None:
            bench.line.before("claim", hang_up)

        async def send(message: object) -> None:
            del message

        bench.line.before("claim", nothing_yet)
        scope = {
            "type": "http", "method": "POST", "path": "/v1/leases:claim", "query_string": b"", "client": None,
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        }  # fmt: skip
        await api(scope, inbox.get, send)
        assert (await bench.look(job)).state is state


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


# Seed 1


async def test_a_seed_worker_completes_and_fails(stage: Stage) -> None:
    await stage.submit(type="one")
    await stage.submit(type="two")
    first = body_of(await stage.client.get("/next-job?worker_id=w&type=one"))
    second = body_of(await stage.client.get("/next-job?worker_id=w&type=two&lease=300"))
    assert second["lease_until"] == "2026-03-01T12:05:00.123457Z"
    done = {"worker_id": "w", "status": "SUCCESS", "result": {"ok": 1}, "fence": first["fence"]}
    assert body_of(await stage.client.post(f"/jobs/{first['id']}/complete", json=done))["result"] == {"ok": 1}
    failed = {"worker_id": "w", "success": False, "error": "no route to host"}
    after = body_of(await stage.client.post(f"/jobs/{second['id']}/complete", json=failed))
    assert (after["status"], after["error"]["message"]) == ("retrying", "no route to host")


async def test_a_seed_worker_that_is_stale_is_refused(stage: Stage) -> None:
    await stage.submit()
    stale = body_of(await stage.client.get("/next-job?worker_id=ada"))
    stage.clock.move(HOUR)
    await stage.engine.upkeep.reap(10)
    fresh = body_of(await stage.client.get("/next-job?worker_id=ada"))
    address = f"/jobs/{stale['id']}/complete"
    for wrong in (
        {"worker_id": "ada", "success": True, "fence": stale["fence"]},
        {"worker_id": "eve", "success": True},
        {"worker_id": "eve", "success": True, "fence": fresh["fence"]},
    ):
        assert problem_of(await stage.client.post(address, json=wrong), 409)["code"] == "stale_lease"
    assert (await stage.get(stale["id"]))["status"] == "running"
    right = {"worker_id": "ada", "success": True, "fence": fresh["fence"]}
    body_of(await stage.client.post(address, json=right))
    assert body_of(await stage.client.post(address, json=right))["status"] == "completed"
    problem_of(await stage.client.post(address, json={**right, "success": False}), 409)


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
async def test_a_wrong_completion_is_named(stage: Stage, completion: dict[str, Any], field: str) -> None:
    await stage.submit()
    job = body_of(await stage.client.get("/next-job?worker_id=w"))
    problem = problem_of(await stage.client.post(f"/jobs/{job['id']}/complete", json=completion), 422)
    assert fields_of(problem) == {field}


async def test_completing_an_unknown_job_is_not_found(stage: Stage) -> None:
    completion = {"worker_id": "w", "success": True}
    problem_of(await stage.client.post("/jobs/0000000000001/complete", json=completion), 404)

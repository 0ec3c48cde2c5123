"""The routes of workflows."""

from __future__ import annotations

from typing import Any

from api.route_cases.asking import Ask, acts, of, state
from api.staging import Stage

ETL: dict[str, Any] = {
    "name": "etl",
    "nodes": [
        {"name": "extract", "type": "extract", "payload": {"day": 1}},
        {"name": "load", "type": "load", "after": ["extract"], "takes": "result"},
        {"name": "report", "type": "report", "after": [{"node": "load", "need": "end"}]},
    ],
}


async def made(stage: Stage) -> dict[str, Any]:
    """Submit the workflow, and show it."""
    told = (await stage.client.post("/v1/workflows", json=ETL)).json()
    shown: dict[str, Any] = (await stage.client.get(f"/v1/workflows/{told['id']}")).json()
    return shown


def states(shown: dict[str, Any]) -> list[str]:
    return [node["state"] for node in shown["nodes"]]


@of("POST /v1/workflows")
async def submit(stage: Stage, ask: Ask) -> None:
    told = await ask(201, json=ETL, headers={"Idempotency-Key": "monday"})
    assert (told["name"], told["state"], told["progress"]) == ("etl", "running", {"pending": 1, "blocked": 2})
    again = await ask(200, json=ETL, headers={"Idempotency-Key": "monday"})
    assert again["id"] == told["id"]
    assert len(await stage.store.workflows()) == 1


@of("GET /v1/workflows")
async def list_workflows(stage: Stage, ask: Ask) -> None:
    ids = [(await made(stage))["id"] for _ in range(2)]
    first = await ask(params={"limit": 1})
    assert [one["id"] for one in first["items"]] == [ids[1]]
    second = await ask(params={"limit": 1, "cursor": first["next_cursor"]})
    assert ([one["id"] for one in second["items"]], second["next_cursor"]) == ([ids[0]], None)


@of("GET /v1/workflows/{id}")
async def get(stage: Stage, ask: Ask) -> None:
    shown = await ask(name=(await made(stage))["id"])
    assert [(node["name"], node["type"], node["after"]) for node in shown["nodes"]] == [
        ("extract", "extract", []),
        ("load", "load", ["extract"]),
        ("report", "report", [{"node": "load", "need": "end"}]),
    ]
    assert states(shown) == ["pending", "blocked", "blocked"]


@of("GET /v1/workflows/{id}/results")
async def results(stage: Stage, ask: Ask) -> None:
    shown = await made(stage)
    (claimed,) = await stage.claim()
    await stage.settle(claimed, "succeeded", result={"rows": 7})
    first = await ask(name=shown["id"], params={"limit": 2})
    assert [(one["name"], one["result"], one["has_result"]) for one in first["items"]] == [
        ("extract", {"rows": 7}, True),
        ("load", None, False),
    ]
    second = await ask(name=shown["id"], params={"limit": 2, "cursor": first["next_cursor"]})
    assert ([one["name"] for one in second["items"]], second["next_cursor"]) == (["report"], None)


@of("POST /v1/workflows/{id}/cancel")
async def cancel(stage: Stage, ask: Ask) -> None:
    shown = await made(stage)
    told = await ask(name=shown["id"])
    assert (told["state"], told["progress"]) == ("cancelled", {"cancelled": 3})
    assert await acts(stage) == [("workflows.cancel", shown["id"])]
    assert "ended already" in (await ask(409, name=shown["id"]))["detail"]


@of("POST /v1/workflows/{id}/retry")
async def retry(stage: Stage, ask: Ask) -> None:
    shown = await made(stage)
    await stage.client.post(f"/v1/workflows/{shown['id']}/cancel")
    assert "'extract'" in (await ask(409, name=shown["id"], json={"node": "load"}))["detail"]
    told = await ask(name=shown["id"], json={"node": "report"})
    assert told["progress"] == {"cancelled": 2, "pending": 1}
    told = await ask(name=shown["id"])
    assert told["progress"] == {"pending": 1, "blocked": 2}
    after = (await stage.client.get(f"/v1/workflows/{shown['id']}")).json()
    assert [len(node["earlier"]) for node in after["nodes"]] == [1, 1, 2]
    assert "name" in (await ask(409, name=shown["id"]))["detail"]


@of("POST /v1/workflows/{id}/skip")
async def skip(stage: Stage, ask: Ask) -> None:
    shown = await made(stage)
    told = await ask(name=shown["id"], json={"node": "extract"})
    assert told["progress"] == {"skipped": 1, "pending": 1, "blocked": 1}
    assert await state(stage, shown["nodes"][0]["job_id"]) == "cancelled"
    assert await acts(stage) == [("workflows.skip", shown["id"])]
    assert (await ask(422, name=shown["id"], json={"node": "nowhere"}))["errors"][0]["field"] == "node"


@of("GET /v1/jobs/{id}/relations")
async def relations(stage: Stage, ask: Ask) -> None:
    shown = await made(stage)
    extract, load, report = (node["job_id"] for node in shown["nodes"])
    told = await ask(name=load)
    assert [(one["id"], one["need"], one["is_met"], one["state"]) for one in told["after"]] == [
        (extract, "success", False, "pending")
    ]
    assert [(one["id"], one["need"]) for one in told["followers"]] == [(report, "end")]
    assert told["workflow"] == {
        "workflow_id": shown["id"], "node": "load", "position": 1, "is_current": True, "runs": [load]
    }  # fmt: skip
    alone = await stage.submit(type="mail")
    told = await ask(name=alone["id"])
    assert (told["after"], told["followers"], told["workflow"], told["parent_id"]) == ([], [], None, None)

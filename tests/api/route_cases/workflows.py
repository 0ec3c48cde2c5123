"""The routes of workflows."""

from __future__ import annotations

from typing import Any

from api.environment import ApiEnvironment
from api.route_cases.route_case import RouteClient, ledger_actions, of, state

ETL: dict[str, Any] = {
    "name": "etl",
    "nodes": [
        {"name": "extract", "type": "extract", "payload": {"day": 1}},
        {"name": "load", "type": "load", "after": ["extract"], "takes": "result"},
        {"name": "report", "type": "report", "after": [{"node": "load", "need": "end"}]},
    ],
}


async def made(env: ApiEnvironment) -> dict[str, Any]:
    """Submit the workflow, and show it."""
    answer = (await env.client.post("/v1/workflows", json=ETL)).json()
    shown: dict[str, Any] = (await env.client.get(f"/v1/workflows/{answer['id']}")).json()
    return shown


def states(shown: dict[str, Any]) -> list[str]:
    return [node["state"] for node in shown["nodes"]]


@of("POST /v1/workflows")
async def submit(env: ApiEnvironment, send: RouteClient) -> None:
    answer = await send(201, json=ETL, headers={"Idempotency-Key": "monday"})
    assert (answer["name"], answer["state"], answer["progress"]) == ("etl", "running", {"pending": 1, "blocked": 2})
    again = await send(200, json=ETL, headers={"Idempotency-Key": "monday"})
    assert again["id"] == answer["id"]
    assert len(await env.store.workflows()) == 1


@of("GET /v1/workflows")
async def list_workflows(env: ApiEnvironment, send: RouteClient) -> None:
    ids = [(await made(env))["id"] for _ in range(2)]
    first = await send(params={"limit": 1})
    assert [one["id"] for one in first["items"]] == [ids[1]]
    second = await send(params={"limit": 1, "cursor": first["next_cursor"]})
    assert ([one["id"] for one in second["items"]], second["next_cursor"]) == ([ids[0]], None)


@of("GET /v1/workflows/{id}")
async def get(env: ApiEnvironment, send: RouteClient) -> None:
    shown = await send(name=(await made(env))["id"])
    assert [(node["name"], node["type"], node["after"]) for node in shown["nodes"]] == [
        ("extract", "extract", []),
        ("load", "load", ["extract"]),
        ("report", "report", [{"node": "load", "need": "end"}]),
    ]
    assert states(shown) == ["pending", "blocked", "blocked"]


@of("GET /v1/workflows/{id}/results")
async def results(env: ApiEnvironment, send: RouteClient) -> None:
    shown = await made(env)
    (claimed,) = await env.claim()
    await env.settle(claimed, "succeeded", result={"rows": 7})
    first = await send(name=shown["id"], params={"limit": 2})
    assert [(one["name"], one["result"], one["has_result"]) for one in first["items"]] == [
        ("extract", {"rows": 7}, True),
        ("load", None, False),
    ]
    second = await send(name=shown["id"], params={"limit": 2, "cursor": first["next_cursor"]})
    assert ([one["name"] for one in second["items"]], second["next_cursor"]) == (["report"], None)


@of("POST /v1/workflows/{id}/cancel")
async def cancel(env: ApiEnvironment, send: RouteClient) -> None:
    shown = await made(env)
    answer = await send(name=shown["id"])
    assert (answer["state"], answer["progress"]) == ("cancelled", {"cancelled": 3})
    assert await ledger_actions(env) == [("workflows.cancel", shown["id"])]
    assert "ended already" in (await send(409, name=shown["id"]))["detail"]


@of("POST /v1/workflows/{id}/retry")
async def retry(env: ApiEnvironment, send: RouteClient) -> None:
    shown = await made(env)
    await env.client.post(f"/v1/workflows/{shown['id']}/cancel")
    assert "'extract'" in (await send(409, name=shown["id"], json={"node": "load"}))["detail"]
    answer = await send(name=shown["id"], json={"node": "report"})
    assert answer["progress"] == {"cancelled": 2, "pending": 1}
    answer = await send(name=shown["id"])
    assert answer["progress"] == {"pending": 1, "blocked": 2}
    after = (await env.client.get(f"/v1/workflows/{shown['id']}")).json()
    assert [len(node["earlier"]) for node in after["nodes"]] == [1, 1, 2]
    assert "name" in (await send(409, name=shown["id"]))["detail"]


@of("POST /v1/workflows/{id}/skip")
async def skip(env: ApiEnvironment, send: RouteClient) -> None:
    shown = await made(env)
    answer = await send(name=shown["id"], json={"node": "extract"})
    assert answer["progress"] == {"skipped": 1, "pending": 1, "blocked": 1}
    assert await state(env, shown["nodes"][0]["job_id"]) == "cancelled"
    assert await ledger_actions(env) == [("workflows.skip", shown["id"])]
    assert (await send(422, name=shown["id"], json={"node": "nowhere"}))["errors"][0]["field"] == "node"


@of("GET /v1/jobs/{id}/relations")
async def relations(env: ApiEnvironment, send: RouteClient) -> None:
    shown = await made(env)
    extract, load, report = (node["job_id"] for node in shown["nodes"])
    answer = await send(name=load)
    assert [(one["id"], one["need"], one["is_met"], one["state"]) for one in answer["after"]] == [
        (extract, "success", False, "pending")
    ]
    assert [(one["id"], one["need"]) for one in answer["followers"]] == [(report, "end")]
    assert answer["workflow"] == {
        "workflow_id": shown["id"], "node": "load", "position": 1, "is_current": True, "runs": [load]
    }  # fmt: skip
    alone = await env.submit(type="mail")
    answer = await send(name=alone["id"])
    assert (answer["after"], answer["followers"], answer["workflow"], answer["parent_id"]) == ([], [], None, None)

"""Task types over HTTP: counted from the history, known by workers, described by schemas, limited to queues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from api.environment import ApiEnvironment, api_environment, body_of
from rota.api import ApiKey, ApiSettings
from rota.core.access import ROLES
from rota.core.cluster import Member, Role
from rota.runtime.history import HistoryWriter

ADMIN = {"Authorization": "Bearer " + "a" * 32}
LIMITED = {"Authorization": "Bearer " + "b" * 32}


@pytest.fixture
async def guarded() -> AsyncIterator[ApiEnvironment]:
    keys = (
        ApiKey.of("admin", "a" * 32),
        replace(ApiKey.of("limited", "b" * 32, ROLES["operator"]), queues=("mail",)),
    )
    async with api_environment(ApiSettings(keys=keys)) as env:
        yield env


async def shown(env: ApiEnvironment, path: str = "/v1/types", status: int = 200, **options: Any) -> Any:  # noqa: ANN401 - JSON
    return body_of(await env.client.get(path, **options), status)


async def test_failures_and_times_come_from_the_history(env: ApiEnvironment) -> None:
    writer = HistoryWriter(env.engine)
    for number in range(4):
        await env.submit(type="mail", queue="out", max_attempts=1)
        (job,) = await env.claim(queues=["out"])
        env.clock.move(timedelta(seconds=0.3))
        await (
            env.settle(job, "succeeded") if number else env.settle(job, "failed", error={"kind": "E", "message": "no"})
        )
    await env.submit(type="report")
    await writer.tick()
    found = {one["type"]: one for one in (await shown(env))["items"]}
    mail = found["mail"]
    assert (mail["submitted"], mail["succeeded"], mail["failed"], mail["dead"]) == (4, 3, 1, 1)
    assert (mail["failure_rate"], mail["queues"]) == (0.25, ["out"])
    assert mail["duration"]["p50"] <= mail["duration"]["p95"]
    assert (found["report"]["failure_rate"], found["report"]["duration"]["p50"]) == (None, None)


async def test_workers_that_know_a_type_are_named(env: ApiEnvironment) -> None:
    members = [
        Member(Role.WORKER, "ada", "1", queues=("default",), types=("mail",)),
        Member(Role.WORKER, "any", "2", queues=("default",), types=None),
        Member(Role.SCHEDULER, "boss", "3", types=("mail",)),
    ]
    await env.store.beat(members)
    (mail,) = (await shown(env))["items"]
    assert (mail["type"], mail["workers"], mail["live_workers"]) == ("mail", ["ada", "any"], 2)
    env.clock.move(timedelta(seconds=60))
    assert (await shown(env))["items"] == [], "they sent no heartbeat any more"


async def test_the_list_is_paged_by_name(env: ApiEnvironment) -> None:
    types = tuple(f"t{number}" for number in range(5))
    await env.store.beat([Member(Role.WORKER, "ada", "1", queues=("default",), types=types)])
    first = await shown(env, "/v1/types?limit=2")
    second = await shown(env, f"/v1/types?limit=3&cursor={first['next_cursor']}")
    assert [one["type"] for one in first["items"] + second["items"]] == list(types)
    assert second["next_cursor"] is None


async def test_a_registered_schema_is_shown_with_the_type(env: ApiEnvironment) -> None:
    answer = await env.client.post("/v1/types:register", json={"schemas": {"a ü": '{"type":"object"}'}})
    assert answer.status_code == 204
    one = await shown(env, "/v1/types/a%20%C3%BC")
    assert (one["payload_schema"], one["started"]) == ({"type": "object"}, 0)
    assert one["payload_schema_at"] is not None


@pytest.mark.parametrize("text", ["[]", "{]", "nul", "1e999", '"text"'])
async def test_what_is_no_schema_is_refused(env: ApiEnvironment, text: str) -> None:
    answer = await env.client.post("/v1/types:register", json={"schemas": {"mail": text}})
    assert body_of(answer, 422)["errors"][0]["field"] == "schemas.mail"
    assert await env.store.payload_schema("mail") is None


async def test_an_unknown_type_is_not_found(env: ApiEnvironment) -> None:
    problem = await shown(env, "/v1/types/nothing", 404)
    assert "'nothing'" in problem["detail"]
    assert "rota types list" in problem["fix"]


@pytest.mark.parametrize("since", ["8d", "0", "soon", "-1h"])
async def test_a_wrong_since_is_named(env: ApiEnvironment, since: str) -> None:
    problem = await shown(env, f"/v1/types?since={since}", 422)
    assert problem["errors"][0]["field"] == "since"


async def test_a_token_of_some_queues_sees_only_their_types(guarded: ApiEnvironment) -> None:
    writer = HistoryWriter(guarded.engine)
    for queue, type_ in (("mail", "send"), ("pay", "charge"), ("pay", "send")):
        body = {"type": type_, "queue": queue}
        assert (await guarded.client.post("/v1/jobs", json=body, headers=ADMIN)).status_code == 201
    await writer.tick()
    await guarded.store.beat(
        [
            Member(Role.WORKER, "ada", "1", queues=("mail",), types=("send", "sort")),
            Member(Role.WORKER, "bob", "2", queues=("pay",), types=("send", "charge", "refund")),
        ]
    )
    await guarded.store.register_schemas({"charge": "{}", "send": "{}"})
    items = (await shown(guarded, headers=LIMITED))["items"]
    assert [(one["type"], one["submitted"], one["queues"], one["workers"]) for one in items] == [
        ("send", 1, ["mail"], ["ada"]),
        ("sort", 0, [], ["ada"]),
    ]
    await shown(guarded, "/v1/types/charge", 404, headers=LIMITED)
    assert (await shown(guarded, "/v1/types/send", headers=LIMITED))["payload_schema"] == {}
    assert len((await shown(guarded, headers=ADMIN))["items"]) == 4

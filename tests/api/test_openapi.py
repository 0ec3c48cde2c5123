"""The OpenAPI document describes what the server does."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from api.environment import ApiEnvironment, body_of
from rota.api.routes import ROUTES


async def test_every_route_is_described_and_nothing_else(env: ApiEnvironment) -> None:
    document = body_of(await env.client.get("/openapi.json"))
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}
    assert document["openapi"] == "3.1.0"
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(set(names)) == len(names)


async def test_every_reference_leads_somewhere(env: ApiEnvironment) -> None:
    text = (await env.client.get("/openapi.json")).text
    schemas = json.loads(text)["components"]["schemas"]
    wanted = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert wanted <= set(schemas)


async def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing(env: ApiEnvironment) -> None:
    response = await env.client.get("/docs")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "<script" not in response.text
    assert "http://" not in response.text
    assert "https://" not in response.text
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "/v1/jobs:batch" in response.text


async def test_the_bare_address_shows_the_page(env: ApiEnvironment) -> None:
    assert (await env.client.get("/")).text == (await env.client.get("/docs")).text


async def test_every_answer_forbids_guessing_and_keeping(env: ApiEnvironment) -> None:
    for path in ("/livez", "/v1/jobs", "/nothing", "/v1/jobs?limit=0", "/docs"):
        headers = (await env.client.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/v1/jobs", "/v1/jobs"),
        ("/jobs", "/jobs"),
        ("/v1/stats", "/v1/stats"),
        ("/v1/queues", "/v1/queues"),
        ("/v1/schedules", "/v1/schedules"),
        ("/v1/dead-letters/groups", "/v1/dead-letters/groups"),
        ("/v1/events", "/v1/events"),
        ("/v1/schedules/forecast", "/v1/schedules/forecast"),
        ("/health", "/health"),
        ("/v1/system", "/v1/system"),
    ],
)
async def test_a_full_answer_fits_its_schema(env: ApiEnvironment, path: str, template: str) -> None:
    await env.submit(tags=["a"], meta={"b": "c"}, on_success={"type": "x"}, retry={"cap": 1}, delay=5, timeout=5)
    await env.dead()
    await env.client.post("/tasks", json={"cron": "@hourly"})
    await env.client.post("/v1/queues/default/pause", json={"reason": "x"})
    document = body_of(await env.client.get("/openapi.json"))
    schema: dict[str, Any] = document["paths"][template]["get"]["responses"]["200"]["content"]["application/json"]
    whole = {**schema["schema"], "components": document["components"]}
    jsonschema_rs.Draft202012Validator(whole, validate_formats=True).validate((await env.client.get(path)).json())

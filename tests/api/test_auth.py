"""Authentication and authorization: every route without a key, with a wrong one, and with one of each role."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from api.environment import HERE, ApiEnvironment, api_environment, problem_of, served
from builders import HOUR
from rota.api import ApiKey, ApiSettings
from rota.api.auth import PUBLIC_PATHS
from rota.api.router import Route
from rota.api.routes import ROUTES
from rota.core.access import ROLES, Action, TokenDraft
from rota.ports.client import Actor

TOKENS = {role: f"{role}_0123456789abcdef0123456789abcdef" for role in ROLES}
KEYS = tuple(ApiKey.of(role, token, ROLES[role]) for role, token in TOKENS.items())


@pytest.fixture
async def guarded() -> AsyncIterator[ApiEnvironment]:
    async with api_environment(ApiSettings(keys=KEYS)) as env:
        yield env


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def ask(env: ApiEnvironment, route: Route, headers: dict[str, str]) -> int:
    """Send a request to a route and return the status; a stream is not read further."""
    path = route.path.replace("{id}", "0000000000001").replace("{name}", "mail")
    started = asyncio.get_running_loop().create_future()

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start" and not started.done():
            started.set_result(message["status"])

    waits = asyncio.Event()
    parts = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, object]:
        for part in parts:
            return part
        await waits.wait()
        return {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "method": route.method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "client": ("203.0.113.9", 5),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    task = asyncio.create_task(env.api(scope, receive, send))  # type: ignore[arg-type]
    status: int = await started
    waits.set()
    await task
    return status


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_a_route_opens_to_the_roles_with_its_action_and_to_no_other(
    guarded: ApiEnvironment, route: Route
) -> None:
    is_open = route.path in PUBLIC_PATHS
    assert (await ask(guarded, route, {}) != 401) == is_open
    assert (await ask(guarded, route, bearer("wrong")) != 401) == is_open
    assert (await ask(guarded, route, {"Authorization": f"Basic {TOKENS['admin']}"}) != 401) == is_open
    for role, token in TOKENS.items():
        status = await ask(guarded, route, bearer(token))
        may = is_open or route.action is Action.SIGNED_IN or route.action in ROLES[role]
        assert (status not in {401, 403}) == may, (role, status)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_a_route_is_closed_to_expired_and_revoked_tokens(guarded: ApiEnvironment, route: Route) -> None:
    draft = TokenDraft("a", "admin", expires_at=guarded.clock() + HOUR)
    _, expired = await guarded.engine.tokens.create(draft, Actor("ann"))
    _, revoked = await guarded.engine.tokens.create(TokenDraft("b", "admin"), Actor("ann"))
    await guarded.engine.tokens.revoke("b", Actor("ann"))
    guarded.clock.move(HOUR)
    for secret in (expired, revoked):
        assert (await ask(guarded, route, bearer(secret)) != 401) == (route.path in PUBLIC_PATHS)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_a_read_only_server_refuses_what_changes_something(route: Route) -> None:
    async with api_environment(ApiSettings(keys=KEYS, read_only=True)) as env:
        status = await ask(env, route, bearer(TOKENS["admin"]))
        is_own_view = route.path == "/v1/views/{name}"
        is_action = route.action not in {Action.PUBLIC, Action.SIGNED_IN} and not route.action.endswith(".read")
        is_change = is_action or is_own_view
        assert (status == 403) == is_change
        assert is_change or route.method == "GET" or route.path in {"/v1/schedules:preview", "/v1/session"}


def test_every_route_declares_an_action_and_only_three_are_open() -> None:
    assert {route.path for route in ROUTES if route.action is Action.PUBLIC} == PUBLIC_PATHS
    with pytest.raises(TypeError, match="action"):
        Route(method="GET", path="/x", handler=None, summary="", tag="", responses={})  # type: ignore[call-arg, arg-type]


TRICKS = [
    "//livez",
    "/livez/",
    "/LIVEZ",
    "/livez/..",
    "/livez/../v1/jobs",
    "/v1/jobs/..%2f..%2flivez",
    "/livez%2f",
    "/livez;/v1/jobs",
    "/livez%00",
    "/./livez",
    "/jobs/livez",
    "/v1/jobs?x=/livez",
    "/v1/jobs#/livez",
    "/%6civez/x",
    "/readyz.json",
    "/healthz/jobs",
    "/V1/JOBS",
    "/v1//jobs",
    "/metrics/",
    "/unknown",
]


@pytest.mark.parametrize("path", TRICKS)
async def test_a_trick_with_the_path_opens_nothing(guarded: ApiEnvironment, path: str) -> None:
    async with served(guarded.api) as address:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        asked = path.partition("#")[0]
        writer.write(f"GET {asked} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        status = (await reader.readline()).split()[1]
        writer.close()
        await writer.wait_closed()
    assert status == b"401"


async def test_an_unknown_path_asks_for_a_key_before_it_says_so(guarded: ApiEnvironment) -> None:
    problem_of(await guarded.client.get("/v1/nothing"), 401)
    problem_of(await guarded.client.get("/v1/nothing", headers=bearer(TOKENS["viewer"])), 404)


async def test_refusals_are_all_alike(guarded: ApiEnvironment) -> None:
    presented = [b"Bearer x", "Bearer é".encode(), b"Bearer \xff", b"Bearer", b"", b"Bearer  " + b"x" * 5_000]
    answers = [await guarded.client.get("/v1/jobs")]
    answers += [await guarded.client.get("/v1/jobs", headers={b"authorization": one}) for one in presented]
    assert {answer.text for answer in answers} == {answers[0].text}
    assert all(answer.headers["www-authenticate"] == 'Bearer realm="rota"' for answer in answers)


async def test_metrics_are_open_to_this_machine_only() -> None:
    async with api_environment(ApiSettings(keys=KEYS)) as env:
        for address, headers, status in (
            ("127.0.0.1", {}, 200),
            ("::1", {}, 200),
            ("127.0.0.1", {"X-Forwarded-For": "203.0.113.9"}, 401),
            ("203.0.113.9", {}, 401),
        ):
            transport = httpx.ASGITransport(app=env.api, client=(address, 5))
            async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
                assert (await client.get("/metrics", headers=headers)).status_code == status


async def test_the_name_of_the_key_stands_in_the_ledger_and_keeps_idempotency_apart() -> None:
    keys = (ApiKey.of("ann", "t1", key_scope="ann"), ApiKey.of("bob", "t2", key_scope="bob"))
    async with api_environment(ApiSettings(keys=keys)) as env:
        request = {"idempotency_key": "k"}
        first = await env.client.post("/jobs", json=request, headers=bearer("t1"))
        second = await env.client.post("/jobs", json=request, headers=bearer("t2"))
        assert (first.status_code, second.status_code) == (201, 201)
        await env.client.delete(f"/jobs/{first.json()['id']}", headers=bearer("t1"))
        entry = (await env.client.get("/v1/events", headers=bearer("t2"))).json()["items"][0]
        assert entry["actor"] == "ann"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost.evil.example:80"},
    ],
)
async def test_a_page_of_another_site_cannot_reach_a_server_without_keys(
    env: ApiEnvironment, headers: dict[str, str]
) -> None:
    for method, path in (("POST", "/jobs"), ("GET", "/next-job"), ("GET", "/livez")):
        problem_of(await env.client.request(method, path, headers=headers), 403)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:8080"},
        {"Host": "127.0.0.9"},
        {"Host": "[::1]:8080"},
        {"Host": "LOCALHOST"},
        {"Origin": "http://localhost:8080", "Host": "localhost:8080", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_this_machine_is_served_under_its_own_names(env: ApiEnvironment, headers: dict[str, str]) -> None:
    assert (await env.client.get("/livez", headers=headers)).status_code == 200


async def test_any_name_is_served_when_told_so_or_with_a_key() -> None:
    for settings in (ApiSettings(serves_any_host=True), ApiSettings(keys=KEYS)):
        async with api_environment(settings) as env:
            headers = {"Host": "scheduler:8080", **bearer(TOKENS["viewer"])}
            assert (await env.client.get("/stats", headers=headers)).status_code == 200

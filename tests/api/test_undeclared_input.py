"""Input that a route does not declare is refused. The cases are generated from the route table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import msgspec
import pytest

from api.environment import HERE, ApiEnvironment, body_of, fields_of, problem_of, served
from rota.api.headers import Header
from rota.api.http import json_response
from rota.api.router import CONDITIONAL_HEADERS, Route
from rota.api.routes import ROUTES
from rota.api.settings import ApiSettings
from rota.api.status_app import StatusApp

_ID = "0000000000001"
#: Read for every request before a route is found; described in the introduction of the document.
_FOR_ALL = {b"rota-client", b"rota-namespace",
    b"authorization", b"content-length", b"content-type", b"content-encoding", b"transfer-encoding", b"host", b"origin",
    b"sec-fetch-site", b"x-forwarded-for", b"forwarded", b"via",
}  # fmt: skip


def _address(route: Route) -> str:
    return "/".join(_ID if part.startswith("{") else part for part in route.path.split("/"))


def _named(routes: Iterator[Route]) -> list[Any]:
    return [pytest.param(route, id=f"{route.method} {route.path}") for route in routes]


@pytest.mark.parametrize("route", _named(iter(ROUTES)))
async def test_an_unknown_query_parameter_is_refused(client: httpx.AsyncClient, route: Route) -> None:
    sent: Any = {} if route.body else None
    response = await client.request(route.method, _address(route), params={"surprise": "1"}, json=sent)
    assert fields_of(problem_of(response, 422)) == {"surprise"}


@pytest.mark.parametrize("route", _named(route for route in ROUTES if route.body is None))
async def test_a_body_is_refused_where_none_is_read(client: httpx.AsyncClient, route: Route) -> None:
    response = await client.request(route.method, _address(route), json={"surprise": 1})
    problem = problem_of(response, 422)
    assert fields_of(problem) == {"surprise"}
    assert "takes no body" in problem["detail"]


@pytest.mark.parametrize("route", _named(route for route in ROUTES if route.body is not None))
async def test_an_unknown_field_is_refused(client: httpx.AsyncClient, route: Route) -> None:
    response = await client.request(route.method, _address(route), json={"surprise": 1})
    assert "surprise" in fields_of(problem_of(response, 422))


@pytest.mark.parametrize(
    ("route", "name"),
    [
        pytest.param(route, name, id=f"{route.method} {route.path} {name.decode()}")
        for route in ROUTES
        for name in sorted(CONDITIONAL_HEADERS)
        if route.method != "GET" and name not in {header.key for header in route.headers}
    ],
)
async def test_a_condition_is_read_or_refused(client: httpx.AsyncClient, route: Route, name: bytes) -> None:
    """A client whose request is accepted would assume that the header had an effect."""
    response = await client.request(route.method, _address(route), headers={name.decode(): '"1"'})
    (field,) = fields_of(problem_of(response, 422))
    assert field.lower() == name.decode()


@pytest.mark.parametrize(
    ("route", "header"),
    [
        pytest.param(route, header, id=f"{route.method} {route.path} {header.name}")
        for route in ROUTES
        for header in route.headers
        if header.fault
    ],
)
async def test_a_header_with_a_wrong_value_is_refused(client: httpx.AsyncClient, route: Route, header: Header) -> None:
    """Whatever is read: for too long, of other characters, of no characters at all, or twice."""
    for value in (b"", b"wait=" + b"x" * 300, b"ad\x7f", b"\xff", b"0123abcd-" + b"1" * 5_000):
        sent = [(header.name.encode(), value)]
        response = await client.request(route.method, _address(route), headers=sent, json={} if route.body else None)
        assert fields_of(problem_of(response, 422)) == {header.name}, value
    twice = [(header.name, header.example), (header.name, header.example)]
    response = await client.request(route.method, _address(route), headers=twice, json={} if route.body else None)
    assert fields_of(problem_of(response, 422)) == {header.name}


class _Noting(dict[bytes, bytes]):
    """Headers that record which of them were read."""

    asked: set[bytes]

    def __init__(self, pairs: Any) -> None:  # noqa: ANN401 - what a dict is made of
        super().__init__(pairs)
        self.asked = set()

    def get(self, name: Any, default: Any = None) -> Any:  # noqa: ANN401 - as a dict's
        self.asked.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        assert isinstance(name, bytes)
        self.asked.add(name)
        return super().__contains__(name)


@pytest.mark.parametrize("route", _named(iter(ROUTES)))
async def test_every_header_that_is_read_is_described(
    env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch, route: Route
) -> None:
    noted: list[_Noting] = []

    def noting(pairs: Any) -> Mapping[bytes, bytes]:  # noqa: ANN401 - what a dict is made of
        noted.append(_Noting(pairs))
        return noted[-1]

    monkeypatch.setattr("rota.api.app.dict", noting, raising=False)
    env.api.close()
    job = (await env.submit())["id"]
    address = _address(route).replace(_ID, job)
    await env.client.request(route.method, address, json={} if route.body else None)
    document = body_of(await env.client.get("/openapi.json"))
    operation = document["paths"][route.path][route.method.lower()]
    described = {one["name"].lower().encode() for one in operation.get("parameters", ()) if one["in"] == "header"}
    assert noted[1].asked <= described | _FOR_ALL


async def test_the_number_of_the_last_event_has_bounds(env: ApiEnvironment) -> None:
    """It was read as a number however long it was, outside of what answers every error: 500."""
    async with served(env.api) as address, httpx.AsyncClient(base_url=address, timeout=20) as client:
        async with client.stream("GET", "/v1/events/stream") as response:
            number = (await anext(response.aiter_lines())).removeprefix("id: ")
        boot = number.partition("-")[0]
        answer = {"Last-Event-ID": f"{boot}-{'1' * 5_000}"}
        problem_of(await client.get("/v1/events/stream", headers=answer), 422)
        job = await env.submit()
        problem_of(await client.get(f"/v1/jobs/{job['id']}/events", headers=answer), 422)


async def test_an_empty_object_is_as_good_as_no_body(env: ApiEnvironment) -> None:
    dead = await env.dead()
    response = await env.client.post(f"/v1/jobs/{dead['id']}/retry", json={})
    assert body_of(response)["status"] == "pending"


async def test_a_payload_for_a_retry_of_a_dead_letter_is_refused_and_nothing_runs(env: ApiEnvironment) -> None:
    """It was ignored: the old payload ran, with 200. `POST /v1/jobs/{id}/retry` takes edits, and makes a new job."""
    dead = await env.dead()
    path = f"/v1/dead-letters/{dead['id']}/retry"
    problem = problem_of(await env.client.post(path, json={"payload": {"amount": 2}}), 422)
    assert fields_of(problem) == {"payload"}
    assert "submit a new job" in problem["fix"]
    assert (await env.get(dead["id"]))["status"] == "dead"
    edited = body_of(await env.client.post(f"/v1/jobs/{dead['id']}/retry", json={"payload": {"amount": 2}}), 201)
    assert (edited["payload"], edited["retried_from"]) == ({"amount": 2}, dead["id"])


async def test_what_is_no_json_is_refused_where_no_body_is_read(env: ApiEnvironment) -> None:
    dead = await env.dead()
    path = f"/v1/jobs/{dead['id']}/retry"
    problem_of(await env.client.post(path, content=b"{", headers={"Content-Type": "application/json"}), 400)
    problem_of(await env.client.post(path, content=b"x", headers={"Content-Type": "text/plain"}), 415)
    assert (await env.get(dead["id"]))["status"] == "dead"


def test_forms_of_the_table_refuse_unknown_fields() -> None:
    """So that no form can be declared that lets something through."""
    for route in ROUTES:
        for form in (route.body, route.query):
            assert form is None or msgspec.structs.fields(form) is not None
            assert form is None or form.__struct_config__.forbid_unknown_fields, (route.path, form)


def test_the_example_of_a_header_is_one() -> None:
    headers = {header.name: header for route in ROUTES for header in route.headers}
    assert {"Idempotency-Key", "If-Match", "Last-Event-ID", "Prefer", "traceparent", "Accept"} <= set(headers)
    for header in headers.values():
        assert header.check(header.example) is None, header.name


async def test_a_worker_endpoint_takes_nothing_either() -> None:
    board = StatusApp(ApiSettings(), {"/livez": lambda _accept: json_response({})})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=board), base_url=HERE) as client:
        assert fields_of(problem_of(await client.get("/livez?surprise=1"), 422)) == {"surprise"}
        body_of(await client.get("/livez"))

"""No request blocks the event loop for long, whatever it contains.

The cases are made from the route table: bodies of almost a megabyte, hostile in general, and valid ones as long as the
form of the route allows. What is measured is the CPU time of this process between two turns of the loop: what other
processes of the machine do does not count, and what runs in a thread counts only while it keeps the loop from turning.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import pytest

from api.environment import ApiEnvironment
from rota.api.app import Api
from rota.api.router import Route
from rota.api.routes import ROUTES

_MEGABYTE = 1_000_000
#: The bar on a machine of its own, which does `_reference_seconds` in the time below. Where other processes use its
#: cores and caches, the same work takes more CPU time, and the bar is raised by as much.
BAR_SECONDS = 0.05
_REFERENCE_SECONDS = 0.055
_ID = "0000000000001"


def _filled(item: bytes, start: bytes = b'{"payload":[', end: bytes = b"]}") -> bytes:
    return start + b",".join([item] * (_MEGABYTE // (len(item) + 1))) + end


def _names(name: str, count: int) -> bytes:
    return json.dumps({name % number: 1 for number in range(count)}).encode()


#: Hostile whatever the form is.
HOSTILE: dict[str, bytes] = {
    "lists": _filled(b"[]"),
    "deep lists": _filled(b"[" * 60 + b"]" * 60),
    "as many deep lists as allowed": b'{"payload":[' + b",".join([b"[" * 60 + b"]" * 60] * 4_160) + b"]}",
    "objects": _filled(b"{}"),
    "deep objects": _filled(b'{"a":' * 50 + b"1" + b"}" * 50),
    "a list of lists": _filled(b"[]", b"[", b"]"),
    "long numbers": _filled(b"1" * 4_200),
    "many numbers": _filled(b"1e-300"),
    "escapes": b'{"payload":"' + b"\\u0041" * (_MEGABYTE // 6) + b'"}',
    "escaped lists": b'{"payload":["\\u0022",' + b",".join([b"[]"] * 330_000) + b"]}",
    "unknown names": _names("priorty%d", 9_900),
    "long unknown names": _names("max_attempts" * 7 + "%d", 9_900),
    "too many names": _names("%d", 80_000),
    "nested unknown names": json.dumps({"retry": {f"bas{number}": 1 for number in range(9_900)}}).encode(),
    "unclosed": b"[" * _MEGABYTE,
    "quotes": b'"' * _MEGABYTE,
    "blanks": b" " * _MEGABYTE,
}


def _value(form: Any, room: int) -> Any:  # noqa: ANN401 - any type
    """Make a valid value of a type, as large as it may be and as there is room for."""
    if form is msgspec.Raw or form is Any:
        return 1
    if get_origin(form) is Annotated:
        return _limited(form, room)
    if get_origin(form) is Union or type(form).__name__ == "UnionType":
        (first, *_) = [one for one in get_args(form) if one is not type(None)]
        return _value(first, room)
    if get_origin(form) is list:
        return _list(get_args(form)[0], 20_000, room)
    if get_origin(form) is dict:
        return {}
    if isinstance(form, type) and issubclass(form, msgspec.Struct):
        return _struct(form, room)
    if isinstance(form, type) and issubclass(form, str) and form is not str:
        return next(iter(form))  # type: ignore[call-overload] # an enumeration
    return {bool: False, int: 1, float: 1.0, str: "a"}.get(form, "2026-01-01T00:00:00Z")


def _limited(form: Any, room: int) -> Any:  # noqa: ANN401 - any type
    inner, meta = get_args(form)[0], get_args(form)[1]
    if get_origin(inner) is list:
        return _list(get_args(inner)[0], meta.max_length or 20_000, room)
    if inner is str and meta.min_length == len(_ID) == meta.max_length:
        return _ID
    return _value(inner, room)


def _list(item: Any, most: int, room: int) -> list[Any]:  # noqa: ANN401 - any type
    one = _value(item, min(room, 500))
    text = msgspec.json.encode(one)
    # As many as fit into the room and, where they are objects, into the names that a body may have.
    most = min(most, 1_000 if one == _ID else most, 9_000 // max(text.count(b":"), 1))
    return [one] * max(min(most, room // (len(text) + 1)), 1)


def _struct(form: type[msgspec.Struct], room: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    tag = form.__struct_config__.tag
    if tag is not None:
        made[str(form.__struct_config__.tag_field)] = tag
    fields = msgspec.structs.fields(form)
    wanted = [one for one in fields if one.required or _is_list(one.type)]
    for field in wanted:
        made[field.encode_name] = _value(field.type, room // max(len(wanted), 1))
    return made


def _is_list(form: Any) -> bool:  # noqa: ANN401 - any type
    return get_origin(form) is list or any(_is_list(one) for one in get_args(form) if not isinstance(one, msgspec.Meta))


#: Routes that every hostile body is sent to: one of each way to read a body.
_TRIED_WITH_ALL = (
    "/v1/jobs",
    "/v1/jobs:batch",
    "/v1/jobs:validate",
    "/v1/workflows",
    "/v1/leases:settle",
    "/v1/limits/{name}",
)
#: Where the longest is not the slowest.
LONGEST: dict[str, Any] = {
    "/v1/jobs:batch": {"jobs": [{"type": "mail", "payload": {"text": "x" * 700}, "tags": ["a", "b"]}] * 1_000},
    "/v1/schedules:preview": {"cron": "59 23 29 2 */2", "zone": "America/New_York", "count": 1_000},
    "/v1/schedules": {"name": "b", "cron": "@every 1s", "job": {"payload": "x" * 900_000}},
    "/v1/schedules/{id}/backfill": {"from": "2026-01-01T00:00:00Z", "to": "2026-02-28T00:00:00Z"},
}


def valid(route: Route) -> bytes:
    """Make the longest valid body of a route, or nearly so."""
    assert route.body is not None
    return msgspec.json.encode(LONGEST.get(route.path) or _value(route.body, 900_000))


#: What each form decodes by itself. The rest is refused before a form is known, by code that all routes share.
_BY_FORM = ("as many deep lists as allowed", "unknown names", "long unknown names", "nested unknown names", "escapes")


def bodies(route: Route) -> dict[str, bytes]:
    """Return what is sent to a route. Those that read no body share the code that refuses one: the worst will do."""
    if route.body is None:
        return {name: HOSTILE[name] for name in _BY_FORM[:1]}
    hostile = HOSTILE if route.path in _TRIED_WITH_ALL else {name: HOSTILE[name] for name in _BY_FORM}
    return {**hostile, "as long as allowed": valid(route)}


async def _ask(api: Api, route: Route, body: bytes) -> int:
    """Send a request past every client: whatever one costs is not the server's."""
    path = "/".join(_ID if part.startswith("{") else part for part in route.path.split("/"))
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), (b"host", b"localhost")]
    scope = {
        "type": "http", "method": route.method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": headers, "client": ("127.0.0.1", 1),
    }  # fmt: skip
    statuses: list[int] = []
    sent = False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:  # noqa: ANN401 - an ASGI message
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await api(scope, receive, send)
    return statuses[0]


async def longest_turn(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the most CPU time that passed between two turns of the loop while something was done, and what it gave."""
    worst, last, is_over = 0.0, time.process_time(), False

    async def turn() -> None:
        nonlocal worst, last
        while not is_over:
            await asyncio.sleep(0)
            now = time.process_time()
            worst, last = max(worst, now - last), now

    turning = asyncio.ensure_future(turn())
    await asyncio.sleep(0)
    last = time.process_time()
    try:
        result = await work()
    finally:
        is_over = True
        await turning
    return worst, result


@pytest.mark.parametrize("route", [pytest.param(route, id=f"{route.method} {route.path}") for route in ROUTES])
async def test_no_request_keeps_the_loop_for_long(env: ApiEnvironment, route: Route) -> None:
    slow: dict[str, tuple[int, int]] = {}
    # A name may be written as an id is, so that paths of schedules lead somewhere.
    await env.client.post("/v1/schedules", json={"name": _ID, "cron": "@every 1s", "job": {}})
    for name, body in bodies(route).items():
        assert len(body) <= 1_048_576
        took, bar = await _shortest(env.api, route, body)
        if took > bar:
            slow[name] = (round(took * 1_000), round(bar * 1_000))
    assert not slow


async def _shortest(api: Api, route: Route, body: bytes) -> tuple[float, float]:
    """Return the first time that is short enough, or the best of nine, and the limit: the garbage collector and other
    processes interfere.
    """
    best, bar = 1.0, BAR_SECONDS
    for _ in range(9):
        took, status = await longest_turn(lambda: _ask(api, route, body))
        assert status < 500
        best = min(best, took)
        if best <= bar:
            break
        bar = max(bar, BAR_SECONDS * _reference_seconds() / _REFERENCE_SECONDS)
    return best, bar


def _reference_seconds() -> float:
    """Measure work of the kind that requests cost: one decoding of the most costly body, and a loop in Python."""
    gc.disable()
    try:
        start = time.process_time()
        tree = msgspec.json.decode(HOSTILE["as many deep lists as allowed"])
        total = sum(number & 3 for number in range(500_000))
        took = time.process_time() - start
        del tree, total
    finally:
        gc.enable()
    return took

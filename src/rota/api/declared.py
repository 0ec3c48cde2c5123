"""Refusing what a route does not read: the one place where requests are compared with the route table.

The table says which query parameters, body and headers a route reads. Whatever else a request brings would have no
effect, so it is refused: an unknown query parameter, a body where none is read, a wrong or repeated value of a header
that is read, and a condition (`Idempotency-Key`, `If-Match`) that the route would not keep.
Names within a declared query or body are checked against their form (`Call.query`, `reading`).
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from msgspec import Struct

from rota.api.calls import Call
from rota.api.errors import Refusal, invalid
from rota.api.headers import IDEMPOTENCY_KEY, IF_MATCH, LAST_EVENT, PREFER, Header
from rota.api.large_bodies import read_large
from rota.api.table import Route

#: Headers on which the effect of a change depends: a route that changes something reads them or refuses them.
CONDITIONS: Final = {IDEMPOTENCY_KEY.key: IDEMPOTENCY_KEY, IF_MATCH.key: IF_MATCH}
CHECKED: Final = frozenset({*CONDITIONS, LAST_EVENT.key, PREFER.key})
_SAFE: Final = frozenset({"GET", "HEAD"})


class NoBody(Struct, forbid_unknown_fields=True):
    """What may stand in the body of a request to a route that reads none: an empty object."""


async def check_declared(route: Route, call: Call) -> None:
    """Refuse a request that brings what its route does not read."""
    scope, headers = call.scope, call.headers
    if scope["query_string"]:
        if route.query is None:
            refuse_query(scope["query_string"])
        else:
            call.query(route.query)
    if not CHECKED.isdisjoint(headers):
        _check_headers(route, call)
    if route.takes is None and (b"content-length" in headers or b"transfer-encoding" in headers):
        await _refuse_body(call)


def refuse_query(query: bytes) -> None:
    """Refuse every query parameter."""
    names = [name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)]
    raise invalid([((names or ["query"])[0][:100], "unknown query parameter; none is read here")])


def _check_headers(route: Route, call: Call) -> None:
    read_here = {header.key: header for header in route.headers}
    for name in CHECKED.intersection(call.headers):
        header = read_here.get(name)
        if header is not None:
            _check_value(header, call)
        elif name in CONDITIONS and call.scope["method"] not in _SAFE:
            raise invalid([(CONDITIONS[name].name, "this header has no effect here; leave it out")])


def _check_value(header: Header, call: Call) -> None:
    if sum(1 for name, _ in call.scope["headers"] if name == header.key) > 1:
        raise invalid([(header.name, "this header stands twice; send it once")])
    try:
        fault = header.check(call.headers[header.key].decode())
    except UnicodeDecodeError:
        fault = "this header is not UTF-8"
    if fault is not None:
        raise invalid([(header.name, fault)])


async def _refuse_body(call: Call) -> None:
    """Refuse a body that says something. An empty object says nothing; many clients send it with every POST."""
    body = await call.body()
    if not body:
        return
    call.must_be_json()
    try:
        await read_large(body, NoBody, call.context.limits)
    except Refusal as refusal:
        if refusal.code != "invalid_request":
            raise
        fix = "send no body; to run a job with another payload, submit a new job"
        detail = f"this route takes no body: {refusal.detail}"
        raise Refusal(422, refusal.code, detail[:2_000], errors=refusal.errors, fix=fix) from None

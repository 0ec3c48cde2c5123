"""Requests through proxies: whose headers count, and which address is the caller's."""

from __future__ import annotations

import pytest

from api.environment import api_environment, body_of, problem_of
from rota.api import ApiKey, ApiSettings
from rota.api.forwarded import forwarded

PROXIES = ("10.0.0.0/8", "fd00::1", "127.0.0.1")
CASES = [
    # from, X-Forwarded-For, the caller
    ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
    ("10.0.0.1", ["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
    ("10.0.0.1", ["198.51.100.1, 203.0.113.9, 10.0.0.2"], "203.0.113.9"),
    ("10.0.0.1", ["198.51.100.1", "203.0.113.9"], "203.0.113.9"),
    ("::ffff:10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
    ("fd00::1", ["2001:db8::7"], "2001:db8::7"),
    ("10.0.0.1", ["203.0.113.9:51234"], "203.0.113.9"),
    ("10.0.0.1", ["[2001:db8::7]:51234"], "2001:db8::7"),
    ("10.0.0.1", ["203.0.113.9, 10.0.0.2:443"], "203.0.113.9"),
    ("10.0.0.1", ["203.0.113.9, [not an address"], "10.0.0.1"),
    ("10.0.0.1", ["not an address"], "10.0.0.1"),
    ("10.0.0.1", [], "10.0.0.1"),
    ("10.0.0.1", ["10.0.0.2"], "10.0.0.1"),
    ("203.0.113.5", ["198.51.100.1"], "203.0.113.5"),
    ("fd00::2", ["198.51.100.1"], "fd00::2"),
]


@pytest.mark.parametrize(("source", "lines", "caller"), CASES)
def test_the_caller_is_the_last_address_that_is_no_proxy(source: str, lines: list[str], caller: str) -> None:
    pairs = [(b"x-forwarded-for", line.encode()) for line in lines]
    scope = {"client": (source, 1), "scheme": "http", "headers": pairs}
    forwarded(scope, dict(pairs), PROXIES)
    assert scope["client"][0] == caller


@pytest.mark.parametrize(("source", "expected"), [("10.0.0.1", ("https", b"a.example")), ("8.8.8.8", ("http", b"b"))])
def test_scheme_and_host_count_only_from_a_proxy(source: str, expected: tuple[str, bytes]) -> None:
    headers = {b"host": b"b", b"x-forwarded-proto": b"https", b"x-forwarded-host": b"a.example"}
    scope = {"client": (source, 1), "scheme": "http", "headers": list(headers.items())}
    assert (forwarded(scope, headers, PROXIES)[b"host"], scope["scheme"]) == (expected[1], expected[0])


async def test_the_ledger_names_the_caller_behind_the_proxy() -> None:
    async with api_environment(ApiSettings(keys=(ApiKey.of("token", "hush"),), proxies=PROXIES)) as env:
        headers = {"Authorization": "Bearer hush", "X-Forwarded-For": "203.0.113.9"}
        body_of(await env.client.post("/v1/queues/mail/pause", headers=headers))
        (event,) = body_of(await env.client.get("/v1/events", headers=headers))["items"]
        assert "203.0.113.9" in str(event)
        problem_of(await env.client.get("/v1/jobs", headers={"X-Forwarded-For": "203.0.113.9"}), 401)

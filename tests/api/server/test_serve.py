"""A real server on a real socket: binding, limits, deadlines, shutdown."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from api.environment import ApiEnvironment, api_environment, body_of, problem_of, served, until
from rota.api import ApiSettings, Limits, Protection, Timeouts, check_bind, serve
from rota.api.server import serve as serve_module
from rota.core.errors import InvalidRequest

QUICK = Timeouts(head=timedelta(seconds=0.3), linger=timedelta(seconds=0.3), grace=timedelta(seconds=2))


@pytest.fixture
async def address(env: ApiEnvironment) -> AsyncIterator[str]:
    async with served(env.api) as address:
        yield address


async def spoken(address: str, *parts: bytes, end: bool = False) -> bytes:
    """Say something to a server byte by byte and give all that it answers until it hangs up."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if end:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_this_machine_alone_may_be_bound_without_a_token(host: str) -> None:
    check_bind(host, Protection())


STRONG = "0123456789abcdef0123456789abcdef"
UNPROTECTED = {
    "no token": Protection(),
    "no token, with TLS": Protection(has_tls=True),
    "no TLS": Protection(STRONG),
    "a short token": Protection("hush", has_tls=True),
    "a short token behind a proxy": Protection("hush", behind_proxy=True),
    "a proxy without a token": Protection(behind_proxy=True),
}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "example.invalid"])  # noqa: S104
def test_anything_else_needs_a_strong_token_and_tls(host: str) -> None:
    for name, protection in UNPROTECTED.items():
        with pytest.raises(InvalidRequest, match="ROTA_TOKEN"):
            check_bind(host, protection)
        check_bind("127.0.0.1", protection)
        assert protection.missing, name
        check_bind(host, replace(protection, insecure=True))
    check_bind(host, Protection(STRONG, has_tls=True))
    check_bind(host, Protection(STRONG, behind_proxy=True))


async def test_a_server_without_a_token_does_not_start_elsewhere(env: ApiEnvironment) -> None:
    with pytest.raises(InvalidRequest, match="ROTA_TOKEN"):
        await serve(env.api, host="0.0.0.0", port=0)  # noqa: S104


async def test_a_server_listens_where_it_was_told_and_nowhere_else(address: str) -> None:
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.2", port), timeout=5):
        pass


async def test_a_port_that_is_taken_is_refused_with_a_sentence(env: ApiEnvironment, address: str) -> None:
    with pytest.raises(InvalidRequest, match="another program listens there"):
        await serve(env.api, port=int(address.rpartition(":")[2]))


@pytest.mark.parametrize(("extra", "status"), [(-1, 200), (0, 200), (1, 431)])
async def test_the_headers_have_an_exact_size(address: str, extra: int, status: int) -> None:
    async with httpx.AsyncClient(base_url=address) as client:
        request = client.build_request("GET", "/livez", headers={"x": ""})
        size = sum(len(name) + len(value) for name, value in request.headers.raw)
        request.headers["x"] = "a" * (16_384 - size + extra)
        assert (await client.send(request)).status_code == status


@pytest.mark.parametrize(("count", "status"), [(99, 200), (100, 200), (101, 431)])
async def test_the_headers_have_an_exact_number(address: str, count: int, status: int) -> None:
    async with httpx.AsyncClient(base_url=address) as client:
        request = client.build_request("GET", "/livez")
        for number in range(count - len(request.headers.raw)):
            request.headers[f"x-{number}"] = "1"
        assert (await client.send(request)).status_code == status


@pytest.mark.parametrize(("extra", "status"), [(-1, 422), (0, 422), (1, 414)])
async def test_the_address_has_an_exact_length(address: str, extra: int, status: int) -> None:
    """Path and query together, without the mark between them."""
    async with httpx.AsyncClient(base_url=address) as client:
        filler = "a" * (8_192 - len("/jobs") - len("status=") + extra)
        assert (await client.get(f"/jobs?status={filler}")).status_code == status


async def test_a_head_without_end_is_cut_off(address: str) -> None:
    answer = await spoken(address, b"GET /livez HTTP/1.1\r\nx: ", *[b"a" * 10_000] * 10)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"application/problem+json" in answer


async def test_what_is_not_http_is_refused_in_the_usual_form(address: str) -> None:
    answer = await spoken(address, b"nonsense\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "invalid_http"
    for line in (b"OPTIONS * HTTP/1.1", b"GET /\xff HTTP/1.1", b"GET http://x HTTP/1.1"):
        answer = await spoken(address, line + b"\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert answer.split()[1] in {b"400", b"404", b"405"}


async def test_a_slow_head_is_not_waited_for(env: ApiEnvironment) -> None:
    async with served(env.api, QUICK) as address:
        assert (await spoken(address, b"GET /livez HT")).startswith(b"HTTP/1.1 408 ")
        assert (await spoken(address)).startswith(b"HTTP/1.1 408 ")


async def test_a_slow_body_is_not_waited_for() -> None:
    async with (
        api_environment() as env,
        served(env.api, Timeouts(body=timedelta(seconds=0.2))) as address,
    ):
        head = b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n"
        answer = await spoken(address, head, b"{")
        assert answer.startswith(b"HTTP/1.1 408 ")


async def test_a_body_that_ends_early_is_no_job(env: ApiEnvironment, address: str) -> None:
    head = b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n"
    host, port = address.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(head + b'{"type":"a"}')
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert body_of(await env.client.get("/stats"))["queue_depth"] == 0


async def test_a_large_body_is_refused_and_the_refusal_arrives(env: ApiEnvironment, address: str) -> None:
    async with httpx.AsyncClient(base_url=address) as client:
        headers = {"Content-Type": "application/json"}
        problem_of(await client.post("/jobs", content=b"a" * 1_048_577, headers=headers), 413)
    assert body_of(await env.client.get("/stats"))["queue_depth"] == 0


async def test_a_client_that_was_answered_early_may_not_send_for_ever(env: ApiEnvironment) -> None:
    async with served(env.api, QUICK) as address:
        head = b"POST /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"
        answer = await spoken(address, head, b"a")
        assert answer.startswith(b"HTTP/1.1 404 ")


async def test_too_much_at_once_is_told_to_wait() -> None:
    async with api_environment(ApiSettings(limits=Limits(in_flight=1))) as env:
        waiting = asyncio.create_task(env.claim(wait=30))
        await until(lambda: env.api._in_flight)
        response = await env.client.get("/livez")
        problem_of(response, 429)
        assert response.headers["retry-after"]
        env.api.close()
        assert await waiting == []


async def test_websockets_are_not_served(address: str) -> None:
    async with httpx.AsyncClient(base_url=address) as client:
        headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "eA=="}
        assert (await client.get("/v1/events/socket", headers=headers)).status_code == 404


async def test_stopping_answers_waiting_clients_and_cuts_nobody_off(env: ApiEnvironment) -> None:
    async with httpx.AsyncClient() as client:
        async with served(env.api) as address:
            request = {"worker_id": "a", "boot_id": "b", "wait": 60}
            waiting = asyncio.create_task(client.post(f"{address}/v1/leases:claim", json=request))
            await until(lambda: env.api._in_flight)
        assert body_of(await waiting) == {"jobs": []}
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{address}/livez")


async def test_a_server_with_a_token_says_when_it_stops(env: ApiEnvironment) -> None:
    env.api.close()
    assert body_of(await env.client.get("/readyz"), 503)["status"] == "stopping"


async def test_a_port_beyond_this_machine_is_warned_of_if_it_lacks_something(
    env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The port itself stays on this machine."""
    monkeypatch.setattr(serve_module, "_is_local_only", lambda _host: False)
    monkeypatch.setattr(serve_module, "_WARN_EVERY", timedelta(0))
    serving = asyncio.create_task(serve(env.api, port=0, protection=Protection(STRONG, insecure=True)))
    await until(lambda: caplog.text.count("there is no TLS") > 1)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)

"""Clients that violate HTTP or do nothing: each is limited, and other clients are served."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx
import pytest

from api.environment import ApiEnvironment, api_environment, body_of, served, until
from rota.api import ApiKey, ApiSettings, Limits, Timeouts
from rota.api import limits as limits_module
from rota.api.server.connections import client_network
from rota.api.server.protocol import ApiProtocol

HOST = b"Host: 127.0.0.1\r\n"
TAKES = HOST + b"Content-Type: application/json\r\n"
JOB = b'{"type":"mail"}'
SUBMIT = b"POST /v1/jobs HTTP/1.1\r\n" + TAKES + b"Content-Length: %d\r\n\r\n" % len(JOB) + JOB
CHUNKED = b"POST /v1/jobs HTTP/1.1\r\n" + TAKES + b"Transfer-Encoding: chunked\r\n\r\n"
CHUNK = b"%x\r\n" % len(JOB) + JOB + b"\r\n"
LIVEZ = b"GET /livez HTTP/1.1\r\n" + HOST
TOKEN = "rota_0123456789abcdef0123456789abcdef"  # noqa: S105 - made up
KEYS = (ApiKey.of("main", TOKEN),)
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def address(env: ApiEnvironment) -> AsyncIterator[str]:
    async with served(env.api) as address:
        yield address


@asynccontextmanager
async def connected(address: str, source: str = "127.0.0.1") -> AsyncIterator[Pair]:
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(source, 0))
    try:
        async with asyncio.timeout(30):
            yield reader, writer
    finally:
        writer.close()


async def answers(address: str, *parts: bytes) -> list[int]:
    """Send parts on one connection, and give the status of each answer until the server closes it."""
    async with connected(address) as (reader, writer):
        for part in parts:
            writer.write(part)
            await writer.drain()
        return statuses(await reader.read())


def statuses(answer: bytes) -> list[int]:
    return [int(one[:3]) for one in answer.split(b"HTTP/1.1 ")[1:]]


async def count_jobs(env: ApiEnvironment) -> int:
    depth: int = body_of(await env.client.get("/stats"))["queue_depth"]
    return depth


def rejected(env: ApiEnvironment, reason: str) -> float:
    return env.api.context.rejections.counts.values[(reason,)]


# Trailers, chunks and what comes after an answer.


@pytest.mark.parametrize("field", [b"X: y", b"Idempotency-Key: k", b"Content-Type: text/plain"])
async def test_a_field_behind_a_chunked_body_is_refused(env: ApiEnvironment, address: str, field: bytes) -> None:
    assert await answers(address, CHUNKED + CHUNK + b"0\r\n" + field + b"\r\n\r\n") == [400]
    assert await count_jobs(env) == 0


async def test_a_token_behind_the_body_is_no_token() -> None:
    async with api_environment(ApiSettings(keys=KEYS)) as env, served(env.api) as address:
        trailer = f"Authorization: Bearer {TOKEN}\r\n\r\n".encode()
        assert 201 not in await answers(address, CHUNKED + CHUNK + b"0\r\n" + trailer)
        assert (await env.engine.census()).total() == 0


async def test_trailers_without_end_are_not_read(address: str) -> None:
    """They were parsed for as long as they came: ten connections took a gigabyte, and no other request was answered."""
    async with connected(address) as (reader, writer):
        writer.write(CHUNKED + b"0\r\n" + b"X: y\r\n" * 100_000)
        assert statuses(await reader.read()) == [400]


@pytest.mark.parametrize(("size", "status"), [(1_000, 201), (40_000, 201), (600_000, 431)])
async def test_chunk_extensions_count_as_head(address: str, size: int, status: int) -> None:
    body = b"%x;a=%b\r\n" % (len(JOB), b"b" * size) + JOB + b"\r\n0\r\n\r\n"
    async with connected(address) as (reader, writer):
        writer.write(CHUNKED)
        writer.write(body)
        assert (await reader.readline()).split()[1] == b"%d" % status


async def test_nothing_is_written_behind_an_error(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """The route asked for the body of a request that was refused already: `100 Continue` was written, and failed."""
    head = CHUNKED.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    async with connected(address) as (reader, writer):
        writer.write(head + b"no chunk at all\r\n")
        assert statuses(await reader.read()) == [400]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_small_chunks_are_allowed(address: str) -> None:
    body = b'{"type":"mail","payload":"%b"}' % (b"x" * 50_000)
    chunks = b"".join(b"1\r\n%c\r\n" % one for one in body)
    async with connected(address) as (reader, writer):
        writer.write(CHUNKED + chunks + b"0\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"201"


async def test_a_head_of_many_small_fields_is_not_kept(address: str) -> None:
    assert await answers(address, LIVEZ + b"a:\r\n" * 101) == [431]


async def test_an_answer_before_the_end_of_a_chunked_body_closes_the_connection(address: str) -> None:
    """And what comes then is not parsed: it would be refused otherwise."""
    async with connected(address) as (reader, writer):
        writer.write(CHUNKED.replace(b"/v1/jobs", b"/nothing"))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 404 ")
        assert b"connection: close" in head
        writer.write(b"no chunk at all\r\n" * 1_000)
        assert b"HTTP/1.1" not in await reader.read()


async def test_a_chunked_body_that_comes_whole_keeps_the_connection(address: str) -> None:
    async with connected(address) as (reader, writer):
        for _ in range(2):
            for part in (CHUNKED, CHUNK, b"0\r\n\r\n"):
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 201 ")
            assert b"connection: close" not in head
            await reader.readuntil(b"}")


async def test_a_connection_leaves_nothing_to_the_collector(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[ApiProtocol]] = []
    before = ApiProtocol.connection_made

    def remember(protocol: ApiProtocol, transport: asyncio.Transport) -> None:
        made.append(weakref.ref(protocol))
        before(protocol, transport)

    monkeypatch.setattr(ApiProtocol, "connection_made", remember)
    gc.collect()
    gc.disable()
    try:
        await answers(address, SUBMIT, LIVEZ + b"Connection: close\r\n\r\n")
        await answers(address, CHUNKED + b"0\r\nX: y\r\n\r\n")
        await answers(address, b"nonsense\r\n\r\n")
        async with asyncio.timeout(10):
            await until(lambda: not any(one() for one in made))
    finally:
        gc.enable()
    assert len(made) == 3


# A refusal does not take the place of an answer.


@pytest.mark.parametrize(
    "junk",
    [b"nonsense\r\n\r\n", b"GET /livez HTTP/7\r\n\r\n", CHUNKED + b"zz\r\n", LIVEZ + b"a:\r\n" * 20_000],
    ids=["no HTTP", "no version", "no chunk", "no end"],
)
async def test_a_request_before_junk_is_answered(env: ApiEnvironment, address: str, junk: bytes) -> None:
    """It was answered with the refusal of the junk, although its job was made."""
    *first, last = await answers(address, SUBMIT + SUBMIT + junk)
    assert first == [201, 201]
    assert last in {400, 431}
    assert await count_jobs(env) == 2


async def test_a_request_under_way_is_answered_before_a_late_one_is_refused(env: ApiEnvironment) -> None:
    async with served(env.api, Timeouts(head=timedelta(seconds=0.1))) as address:
        body = b'{"worker_id":"ada","boot_id":"b","wait":1}'
        claim = b"POST /v1/leases:claim HTTP/1.1\r\n" + TAKES + b"Content-Length: %d\r\n\r\n" % len(body) + body
        assert await answers(address, claim + b"GET /livez HT") == [200, 408]


async def test_a_caller_that_goes_is_missed_even_if_more_of_its_requests_wait(
    env: ApiEnvironment, address: str
) -> None:
    """Only the last of them was told; the one under way went on, and its answer was logged as an error."""
    body = b'{"worker_id":"ada","boot_id":"b","wait":60}'
    claim = b"POST /v1/leases:claim HTTP/1.1\r\n" + TAKES + b"Content-Length: %d\r\n\r\n" % len(body) + body
    async with connected(address) as (_, writer):
        writer.write(claim + LIVEZ + b"\r\n")
        await until(lambda: env.engine.broker.has_subscribers)
    async with asyncio.timeout(10):
        await until(lambda: not env.engine.broker.has_subscribers)


async def test_requests_sent_ahead_of_their_answers_are_bounded() -> None:
    async with api_environment(ApiSettings(limits=Limits(pipelined=3))) as env, served(env.api) as address:
        assert await answers(address, (LIVEZ + b"\r\n") * 1_000) == [200, 200, 200, 200, 429]


async def test_an_upgrade_that_is_not_made_ends_the_connection(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """What comes behind it was lost without a word, and two lines of log were written each time."""
    request = LIVEZ + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n"
    assert await answers(address, request + b"PRI * HTTP/2.0\r\n\r\n") == [200]
    assert not caplog.records


async def test_an_upgrade_with_a_body_is_refused_and_says_why(env: ApiEnvironment, address: str) -> None:
    """The parser gives the body to the other protocol, and the answer was that the body is not JSON."""
    async with connected(address) as (reader, writer):
        writer.write(SUBMIT.replace(HOST, HOST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n"))
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert "--http1.1" in json.loads(body)["fix"]
    assert await count_jobs(env) == 0


# Callers that do not read.


LARGE = 3_000_000


async def not_reading(address: str) -> socket.socket:
    """Request a large answer, and read nothing of it."""
    host, port = address.removeprefix("http://").split(":")
    caller = socket.socket()
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    caller.setblocking(False)  # noqa: FBT003 - the standard library's
    loop = asyncio.get_running_loop()
    await loop.sock_connect(caller, (host, int(port)))
    await loop.sock_sendall(caller, b"GET /v1/jobs?limit=500&fields=payload HTTP/1.1\r\n" + HOST + b"\r\n")
    return caller


@asynccontextmanager
async def with_large_list(
    timeouts: Timeouts, limits: Limits | None = None
) -> AsyncIterator[tuple[ApiEnvironment, str]]:
    async with api_environment(ApiSettings(limits=limits or Limits())) as env, served(env.api, timeouts) as address:
        for _ in range(30):
            await env.submit(type="mail", payload="x" * 250_000)
        yield env, address


async def test_a_caller_that_does_not_read_is_cut_off() -> None:
    """It held its answer in memory for as long as it liked."""
    async with with_large_list(Timeouts(write=timedelta(seconds=0.2))) as (env, address):
        caller = await not_reading(address)
        async with asyncio.timeout(20):
            while not rejected(env, "write_timeout"):  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.02)
        caller.close()


async def test_a_caller_that_reads_slowly_gets_all_of_it() -> None:
    async with with_large_list(Timeouts(write=timedelta(seconds=1))) as (env, address):
        caller = await not_reading(address)
        loop, size = asyncio.get_running_loop(), 0
        with caller:
            # How long it takes is what is tested: longer than the deadline, and always with progress.
            for _ in range(15):
                size += len(await loop.sock_recv(caller, 100_000))
                await asyncio.sleep(0.1)
            async with asyncio.timeout(20):
                while size < 30 * 250_000:
                    size += len(await loop.sock_recv(caller, 1_000_000))
        assert not rejected(env, "write_timeout")


async def test_answers_that_nobody_reads_are_bounded_together() -> None:
    async with with_large_list(Timeouts(), Limits(outgoing_bytes=10_000_000)) as (env, address):
        callers = [await not_reading(address) for _ in range(3)]
        async with asyncio.timeout(20):
            while not rejected(env, "too_many_bytes"):  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.02)
        for caller in callers:
            caller.close()


async def test_bodies_are_bounded_together() -> None:
    async with api_environment(ApiSettings(limits=Limits(incoming_bytes=100_000))) as env, served(env.api) as address:
        head = b"POST /v1/jobs HTTP/1.1\r\n" + TAKES + b"Content-Length: 50000\r\n\r\n"
        async with connected(address) as (reader, first), connected(address) as (_, second):
            first.write(head + b"x" * 40_000)
            async with asyncio.timeout(10):
                await until(lambda: env.api._in_flight == 1)
            second.write(head + b"x" * 40_000)
            async with asyncio.timeout(10):
                await until(lambda: env.api._in_flight == 2)
            async with connected(address) as (_, third):
                third.write(head + b"x" * 40_000)
                # The one that has been unfinished for longest makes room.
                assert statuses(await reader.read()) == [429]
            async with connected(address) as (answer, writer):
                writer.write(SUBMIT)
                assert (await answer.readline()).split()[1] == b"201"


async def test_a_body_beyond_the_bound_makes_no_job_even_if_it_came_whole() -> None:
    async with api_environment(ApiSettings(limits=Limits(incoming_bytes=30_000))) as env, served(env.api) as address:
        job = b'{"type":"mail","payload":"%b"}' % (b"x" * 40_000)
        large = b"POST /v1/jobs HTTP/1.1\r\n" + TAKES + b"Content-Length: %d\r\n\r\n" % len(job) + job
        assert await answers(address, SUBMIT + large) == [201, 429]
        assert await answers(address, large) == [429]
        assert await answers(address, SUBMIT + LIVEZ + b"Connection: close\r\n\r\n") == [201, 200]
        assert await count_jobs(env) == 2


# Too many connections.


async def held_open(address: str, number: int, what: bytes = b"GET /livez HT") -> list[Pair]:
    host, port = address.removeprefix("http://").split(":")
    pairs = [await asyncio.open_connection(host, int(port)) for _ in range(number)]
    for _, writer in pairs:
        writer.write(what)
        await writer.drain()
    return pairs


def close(pairs: list[Pair]) -> None:
    for _, writer in pairs:
        writer.close()


@pytest.mark.parametrize(
    "caps", [Timeouts(connections=3), Timeouts(connections_from_one=3)], ids=["all", "from one address"]
)
@pytest.mark.parametrize("what", [b"", b"GET /livez HT", SUBMIT[:-3]], ids=["silent", "in the head", "in the body"])
async def test_at_the_cap_the_longest_unfinished_connection_is_closed(
    env: ApiEnvironment, caps: Timeouts, what: bytes
) -> None:
    """New connections were refused instead: slow connections from six addresses blocked all others."""
    async with served(env.api, caps) as address:
        slow = await held_open(address, 3, what)
        async with httpx.AsyncClient(base_url=address) as client:
            assert (await client.get("/livez")).status_code == 200
        async with asyncio.timeout(10):
            assert statuses(await slow[0][0].read()) == [429]
        assert not slow[1][0].at_eof()
        close(slow)


async def test_an_idle_connection_is_closed_for_a_new_one(env: ApiEnvironment) -> None:
    async with served(env.api, Timeouts(connections=1)) as address, connected(address) as (reader, writer):
        writer.write(LIVEZ + b"\r\n")
        await reader.readuntil(b"}")
        async with httpx.AsyncClient(base_url=address) as client:
            assert (await client.get("/livez")).status_code == 200
        assert await reader.read() == b""


async def test_a_connection_whose_request_is_under_way_is_not_closed_for_a_new_one(env: ApiEnvironment) -> None:
    async with served(env.api, Timeouts(connections=1)) as address, httpx.AsyncClient(base_url=address) as client:
        request = {"worker_id": "a", "boot_id": "b", "wait": 60}
        waiting = asyncio.create_task(client.post("/v1/leases:claim", json=request))
        async with asyncio.timeout(10):
            await until(lambda: env.engine.broker.has_subscribers)
        assert await answers(address) == [429]
        env.api.close()
        assert body_of(await waiting) == {"jobs": []}


async def test_a_connection_with_a_valid_token_is_closed_last() -> None:
    async with (
        api_environment(ApiSettings(keys=KEYS)) as env,
        served(env.api, Timeouts(connections=3)) as address,
        connected(address) as (reader, writer),
    ):
        request = LIVEZ + f"Authorization: Bearer {TOKEN}\r\n\r\n".encode()
        writer.write(request)
        await reader.readuntil(b"}")
        slow = await held_open(address, 10)
        writer.write(request)
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
        close(slow)


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
    ],
)
def test_ipv6_addresses_are_counted_by_their_64_bit_prefix(host: str, source: str) -> None:
    assert client_network(host) == source


# Logs and metrics.


async def test_what_is_not_http_is_logged_once_a_minute(
    env: ApiEnvironment, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It was a line for each: 653 kB in three seconds."""
    for _ in range(20):
        assert await answers(address, b"nonsense\r\n\r\n") == [400]
    assert [record.getMessage() for record in caplog.records] == ["rejected a request: invalid_http (from 127.0.0.1)"]
    assert rejected(env, "invalid_http") == 20


async def test_wrong_tokens_are_logged_once_a_minute_with_their_number(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A thousand of them wrote nothing at all."""
    monkeypatch.setattr(limits_module, "LOG_EVERY_SECONDS", 0.3)
    async with api_environment(ApiSettings(keys=KEYS)) as env:
        with caplog.at_level(logging.WARNING, "rota.api"):
            for _ in range(20):
                response = await env.client.get("/v1/jobs", headers={"Authorization": "Bearer wrong"})
                assert response.status_code == 401
            async with asyncio.timeout(10):
                while len(caplog.records) < 2:  # noqa: ASYNC110 - nobody tells of it
                    await asyncio.sleep(0.02)
        assert caplog.records[0].getMessage() == "rejected a request: unauthorized (from 127.0.0.1)"
        assert "requests in 0 s: unauthorized (last from 127.0.0.1)" in caplog.records[1].getMessage()
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "text/plain"}
        text = (await env.client.get("/metrics", headers=headers)).text
        assert 'rota_http_rejected_total{reason="unauthorized"} 20' in text
        assert 'rota_http_rejected_total{reason="too_slow"} 0' in text


# The rules for `Host`.


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /livez HTTP/1.1\r\n", 400),
        (b"GET /livez HTTP/1.1\r\n" + HOST * 2, 400),
        (b"GET /livez HTTP/1.1\r\nHost: a b\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nHost: user@127.0.0.1\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1/x\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1:port\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nHost: [::1]:80\r\n", 200),
        (b"GET /livez HTTP/1.1\r\nHost:\r\n", 200),
        (b"GET /livez HTTP/1.0\r\n", 200),
    ],
)
async def test_a_request_names_one_host(address: str, head: bytes, status: int) -> None:
    assert await answers(address, head + b"Connection: close\r\n\r\n") == [status]


@pytest.mark.parametrize("name", ["Authorization", "Content-Type", "Origin"])
async def test_a_header_that_has_one_value_stands_once(address: str, name: str) -> None:
    field = f"{name}: application/json\r\n".encode()
    async with connected(address) as (reader, writer):
        writer.write(b"GET /v1/jobs HTTP/1.1\r\nConnection: close\r\n" + HOST + field * 2 + b"\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["detail"] == f"the header '{name}' is repeated; send it once"

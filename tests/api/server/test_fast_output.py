"""Responses written past ASGI are byte for byte those that uvicorn would send."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from api.environment import ApiEnvironment, served, until
from rota.api import Timeouts
from rota.api.http import Response
from rota.api.server import fast_io
from rota.api.server.protocol import ApiProtocol

JOB = b'{"type":"mail","payload":{"to":"ada"}}'
HOST = b"Host: 127.0.0.1\r\n"
TAKES = HOST + b"Content-Type: application/json\r\n"
SUBMIT = b"POST /v1/jobs HTTP/1.1\r\n" + TAKES + b"Content-Length: %d\r\n\r\n" % len(JOB) + JOB
LAST = b"GET /livez HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
CHUNKED = b"POST /v1/jobs HTTP/1.1\r\n" + TAKES + b"Transfer-Encoding: chunked\r\n\r\n"
IN_CHUNKS = CHUNKED + b"5\r\n" + JOB[:5] + b"\r\n%x\r\n" % len(JOB[5:]) + JOB[5:] + b"\r\n0\r\n\r\n"
EXPECTING = b"POST /v1/jobs HTTP/1.1\r\n" + TAKES + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(JOB)

#: What is said on one connection, in pieces that arrive one by one.
SAID = {
    "a submission": (SUBMIT, LAST),
    "two of a kind": (SUBMIT, SUBMIT, LAST),
    "one behind the other": (SUBMIT + SUBMIT + b"GET /v1/schedules HTTP/1.1\r\n" + HOST + b"\r\n" + LAST,),
    "letter by letter": (*(SUBMIT[place : place + 9] for place in range(0, len(SUBMIT), 9)), LAST),
    "in chunks": (IN_CHUNKS, LAST),
    "nothing where a body is due": (SUBMIT.replace(JOB, b"").replace(b": %d" % len(JOB), b": 0"), LAST),
    "asking first": (EXPECTING, JOB, LAST),
    "asking first, all at once": (EXPECTING + JOB, LAST),
    "asking first, refused": (EXPECTING.replace(b"/v1/jobs", b"/v1/nope"), LAST),
    "bad JSON": (SUBMIT.replace(b'{"type"', b'{"type!'), LAST),
    "nothing here": (b"GET /nope HTTP/1.1\r\n" + HOST + b"\r\n", LAST),
    "another method": (b"PUT /v1/jobs HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\n\r\n", LAST),
    "head": (b"HEAD /livez HTTP/1.1\r\n" + HOST + b"\r\n", LAST),
    "head of nothing": (b"HEAD /nope HTTP/1.1\r\n" + HOST + b"\r\n", LAST),
    "hanging up": (SUBMIT.replace(HOST, HOST + b"Connection: close\r\n"),),
    "an older HTTP": (SUBMIT.replace(b"HTTP/1.1", b"HTTP/1.0"),),
    "an older HTTP that stays": (
        SUBMIT.replace(b"HTTP/1.1", b"HTTP/1.0").replace(HOST, HOST + b"Connection: keep-alive\r\n"),
    ),
    "a document": (b"GET / HTTP/1.1\r\n" + HOST + b"\r\n", LAST),
    "not modified by others": (b"GET /v1/jobs HTTP/1.1\r\n" + HOST + b"Origin: http://evil\r\n\r\n", LAST),
    "an upgrade": (LAST.replace(b"Connection: close", b"Connection: upgrade, close\r\nUpgrade: websocket"),),
}


@pytest.fixture
async def address(env: ApiEnvironment) -> AsyncIterator[str]:
    async with served(env.api) as address:
        yield address


async def heard(address: str, *parts: bytes) -> bytes:
    """Say something piece by piece, and give all that is answered until the server hangs up."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        answer = b""
        for part in parts:
            writer.write(part)
            await writer.drain()
            try:
                # A piece that is answered is answered before the next is said; most are not.
                async with asyncio.timeout(0.02):
                    answer += await reader.read(100_000)
            except TimeoutError:
                continue
        async with asyncio.timeout(20):
            return answer + await reader.read()
    finally:
        writer.close()


def _alike(answer: bytes) -> bytes:
    """Leave out what differs from time to time: the date, and ids."""
    answer = re.sub(rb"date: [^\r]*", b"date: now", answer)
    answer = re.sub(rb'"uptime[^,}]*', b"", answer)
    return re.sub(rb"\b0[0-9a-z]{12}\b", b"<id>", answer)


@pytest.mark.parametrize("what", SAID)
async def test_what_is_sent_in_one_piece_is_what_uvicorn_sends(address: str, what: str) -> None:
    replies: list[bool] = []

    def write(cycle: RequestResponseCycle, *response: Any) -> bool:  # noqa: ANN401 - passed on
        replies.append(fast_io.write_response(cycle, *response))
        return replies[-1]

    with patch("rota.api.http.write_response", write):
        ours = await heard(address, *SAID[what])
    with (
        patch("rota.api.http.write_response", return_value=False),
        patch("rota.api.http.buffered_body", return_value=None),
    ):
        theirs = await heard(address, *SAID[what])
    assert replies
    assert all(replies)
    assert ours.startswith(b"HTTP/1.1 ")
    assert _alike(ours) == _alike(theirs)


async def test_a_uvicorn_that_we_do_not_know_answers_by_itself(address: str) -> None:
    """A field that is renamed would be set in vain, and the same request answered twice."""

    class Renamed:
        def __init__(self) -> None:
            self.has_started = False

    assert fast_io.is_supported_cycle(RequestResponseCycle)
    assert not fast_io.is_supported_cycle(Renamed)
    with patch.object(ApiProtocol, "uses_fast_io", False), patch("rota.api.http.write_response") as write:  # noqa: FBT003
        assert (await heard(address, SUBMIT, LAST)).count(b"HTTP/1.1 20") == 2
    write.assert_not_called()


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"\x00", b"a\x7f"])
async def test_no_header_can_make_another(address: str, value: bytes) -> None:
    """Such an answer goes the long way, where uvicorn refuses to send it."""
    answer = Response(b"{}", headers=[(b"location", value)])
    with patch("rota.api.routes.health.json_response", return_value=answer):
        assert await heard(address, LAST) == b""


async def test_no_request_leaves_a_reference_cycle_to_the_collector(address: str) -> None:
    """It had: with the collector at work every so many requests, one in a hundred took 28 ms instead of 14."""
    stream = b"GET /v1/events HTTP/1.1\r\n" + HOST + b"\r\n"
    for said in (SUBMIT, b"GET /v1/jobs HTTP/1.1\r\n" + HOST + b"\r\n", stream.replace(b"GET", b"HEAD")):
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                writer.write(said)
                await reader.readuntil(b"\r\n\r\n")
            scopes = [one for one in gc.get_objects() if type(one) is dict and "raw_path" in one]
        finally:
            gc.enable()
        writer.close()
        # Those of the last requests may still be in use.
        assert len(scopes) < 10


async def test_a_listener_for_requests_is_called(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("uvicorn.access"), "hasHandlers", lambda: True)
    with caplog.at_level(logging.INFO, "uvicorn.access"):
        await heard(address, SUBMIT, LAST)
    assert [record.getMessage().split(" - ")[1] for record in caplog.records if record.name == "uvicorn.access"] == [
        '"POST /v1/jobs HTTP/1.1" 201',
        '"GET /livez HTTP/1.1" 200',
    ]


async def test_a_connection_that_is_used_again_is_closed_when_it_rests(env: ApiEnvironment) -> None:
    """Its timer was set after the first request, and is put off by the second."""
    async with served(env.api, Timeouts(idle=timedelta(seconds=1))) as address:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for pause in (0.5, 0):
            writer.write(SUBMIT)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 201 ")
            await reader.readexactly(int(re.findall(rb"content-length: (\d+)", head)[0]))
            # How long it rests is what is tested.
            await asyncio.sleep(pause)
        rested = time.monotonic()
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        assert time.monotonic() - rested > 0.9
        writer.close()


async def test_empty_lines_are_no_request_and_keep_no_connection_open(env: ApiEnvironment) -> None:
    """One had called the timer off, and nothing set it again: the connection stayed for as long as its owner liked."""
    async with served(env.api, Timeouts(idle=timedelta(seconds=1))) as address:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(SUBMIT)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.findall(rb"content-length: (\d+)", head)[0]))
        writer.write(b"\r\n")
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()


async def test_a_head_that_begins_after_a_rest_has_as_long_as_any(env: ApiEnvironment) -> None:
    """The timer was set for the end of the rest by then, which is far, and has to be set anew."""
    async with served(env.api, Timeouts(head=timedelta(seconds=0.2))) as address:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(SUBMIT)
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 201 ")
        # Longer than the first head was waited for.
        await asyncio.sleep(0.4)
        writer.write(b"GET /livez HT")
        async with asyncio.timeout(10):
            assert b"HTTP/1.1 408 " in await reader.read()
        writer.close()


async def test_an_answer_does_not_hurry_the_request_behind_it(env: ApiEnvironment) -> None:
    """What is still being sent is the next one, and nobody has answered that: it has as long as any."""
    async with served(env.api, Timeouts(linger=timedelta(seconds=0.1))) as address:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(LAST.replace(b"Connection: close\r\n", b"") + SUBMIT[:-3])
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
        # Longer than whoever was answered too early may take.
        await asyncio.sleep(0.3)
        writer.write(SUBMIT[-3:])
        async with asyncio.timeout(10):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 201 ")
        writer.close()


async def test_no_timer_outlives_its_connection(env: ApiEnvironment, address: str) -> None:
    made: list[ApiProtocol] = []
    before = ApiProtocol.connection_made

    def remember(protocol: ApiProtocol, transport: asyncio.Transport) -> None:
        made.append(protocol)
        before(protocol, transport)

    with patch.object(ApiProtocol, "connection_made", remember):
        await heard(address, SUBMIT, LAST)
    del env
    await until(lambda: made[0]._timer is None)

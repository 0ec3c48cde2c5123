"""Bodies taken past ASGI: in one piece, and later input is handled as before."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from api.environment import ApiEnvironment, api_environment, served, until
from rota.api.server.protocol import ApiProtocol

HEAD = "POST /v1/{} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


def said(path: str, body: str) -> bytes:
    return (HEAD.format(path, len(body)) + body).encode()


async def connected(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = address.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages that uvicorn returned for a body."""
    receive = RequestResponseCycle.receive
    answers: list[str] = []

    async def noted(self: RequestResponseCycle) -> Any:  # noqa: ANN401 - as uvicorn does
        message = await receive(self)
        answers.append(message["type"])
        return message

    monkeypatch.setattr(RequestResponseCycle, "receive", noted)
    return answers


@pytest.mark.parametrize(
    ("size", "cut", "is_asked"),
    [(9, None, False), (9, -5, True), (HIGH_WATER_LIMIT + 1, -5, True)],
    ids=["whole", "in two pieces", "large, in two pieces"],
)
async def test_only_what_is_not_there_is_asked_for(
    env: ApiEnvironment, asked: list[str], size: int, cut: int | None, *, is_asked: bool
) -> None:
    request = said("jobs", '{"type":"mail","payload":"%s"}' % ("x" * size))
    async with served(env.api) as address:
        reader, writer = await connected(address)
        writer.write(request[:cut])
        if cut is not None:
            async with asyncio.timeout(10):
                # Begun, and waits for the rest.
                await until(lambda: env.api._in_flight)
            writer.write(request[cut:])
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 201 ")
        writer.close()
    assert bool(asked) is is_asked


async def test_a_client_that_disconnects_after_its_body_was_read_is_noticed(
    env: ApiEnvironment, asked: list[str]
) -> None:
    async with served(env.api) as address:
        _, writer = await connected(address)
        writer.write(said("leases:claim", '{"worker_id":"ada","boot_id":"b","wait":60}'))
        async with asyncio.timeout(10):
            await until(lambda: env.engine.broker.has_subscribers)
            writer.close()
            await until(lambda: not env.engine.broker.has_subscribers)
    assert asked == ["http.disconnect"]


async def test_what_comes_behind_a_body_that_was_taken_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn stops reading when a second request comes: taking a body past ASGI must resume it."""
    complete = ApiProtocol.on_message_complete
    whole: list[ApiProtocol] = []

    def noted(self: ApiProtocol) -> None:
        complete(self)
        whole.append(self)

    monkeypatch.setattr(ApiProtocol, "on_message_complete", noted)
    request = said("jobs", '{"type":"mail"}')
    place = str(tmp_path / "jobs.db")
    async with api_environment(location=place) as env, served(env.api) as address:
        reader, writer = await connected(address)
        with closing(sqlite3.connect(place)) as other:
            # The first is under way as long as another process writes.
            other.execute("BEGIN IMMEDIATE")
            writer.write(request + request[:-5])
            async with asyncio.timeout(10):
                await until(lambda: env.api._in_flight)
                writer.write(request[-5:])
                await until(lambda: len(whole) > 1)
        for _ in range(2):
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 201 ")
        writer.close()

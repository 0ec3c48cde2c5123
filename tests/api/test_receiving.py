"""A body that is there is taken in one piece, and what comes after it is heard as before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from api.staging import Stage, served, until
from rota.api.receiving import MOST_BYTES

HEAD = "POST /v1/{} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


def said(path: str, body: str) -> bytes:
    return (HEAD.format(path, len(body)) + body).encode()


async def connected(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = address.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What came each time that uvicorn was asked for a piece of a body."""
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
    [(9, None, False), (9, -5, True), (MOST_BYTES + 1, None, True), (MOST_BYTES + 1, -5, True)],
    ids=["whole", "in two pieces", "large", "large, in two pieces"],
)
async def test_only_what_is_not_there_is_asked_for(
    stage: Stage, asked: list[str], size: int, cut: int | None, *, is_asked: bool
) -> None:
    request = said("jobs", '{"type":"mail","payload":"%s"}' % ("x" * size))
    async with served(stage.api) as address:
        reader, writer = await connected(address)
        writer.write(request[:cut])
        if cut is not None:
            async with asyncio.timeout(10):
                # Begun, and waits for the rest.
                await until(lambda: stage.api._in_flight)
            writer.write(request[cut:])
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 201 ")
        writer.close()
    assert bool(asked) is is_asked


def test_uvicorn_stops_to_read_where_we_think() -> None:
    """Whoever takes a body by itself does not tell uvicorn to go on."""
    assert MOST_BYTES == HIGH_WATER_LIMIT


async def test_who_goes_after_its_body_was_taken_is_missed(stage: Stage, asked: list[str]) -> None:
    async with served(stage.api) as address:
        _, writer = await connected(address)
        writer.write(said("leases:claim", '{"worker_id":"ada","boot_id":"b","wait":60}'))
        async with asyncio.timeout(10):
            await until(lambda: stage.engine.broker.is_attended)
            writer.close()
            await until(lambda: not stage.engine.broker.is_attended)
    assert asked == ["http.disconnect"]

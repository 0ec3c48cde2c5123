"""Writes are joined, sent in order, and none is lost."""

from __future__ import annotations

import asyncio
from typing import cast

from rota.api.server.fast_io import CoalescingTransport


class Line:
    """The other end: what arrives there, each call by itself."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.peer = "somebody"

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self) -> None:
        self.sent.append(b"closed")

    def is_closing(self) -> bool:
        return b"closed" in self.sent


def packed(line: Line) -> CoalescingTransport:
    return CoalescingTransport(cast("asyncio.Transport", line), asyncio.get_running_loop())


async def test_a_head_and_its_body_are_one_call() -> None:
    line = Line()
    transport = packed(line)
    for answer in (b"a", b"b"):
        transport.write(b"head " + answer)
        transport.write(b"body " + answer)
    assert line.sent == [b"head abody a", b"head bbody b"]
    await asyncio.sleep(0)
    assert len(line.sent) == 2


async def test_what_nothing_follows_is_sent_when_the_turn_is_over() -> None:
    line = Line()
    transport = packed(line)
    for piece in (b"100 continue", b"200 ok", b"chunk"):
        transport.write(piece)
        await asyncio.sleep(0)
        assert line.sent.pop() == piece
    for piece in (b"1", b"2", b"3"):
        transport.write(piece)
    await asyncio.sleep(0)
    assert line.sent == [b"12", b"3"]


async def test_a_whole_answer_is_sent_at_once_and_behind_what_was_kept() -> None:
    line = Line()
    transport = packed(line)
    transport.send(b"201")
    assert line.sent == [b"201"]
    transport.write(b"100 continue ")
    transport.send(b"201")
    await asyncio.sleep(0)
    assert line.sent == [b"201", b"100 continue 201"]


async def test_closing_leaves_nothing_behind() -> None:
    line = Line()
    transport = packed(line)
    transport.write(b"bye")
    transport.close()
    await asyncio.sleep(0)
    assert line.sent == [b"bye", b"closed"]
    assert transport.peer == "somebody"

"""A pipe that is read at leisure, and a companion that is rung for."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rota.worker.escort import MOST_UNHEARD, Companion
from rota.worker.pipe import LazyReader, PipeReader

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it reads as data comes")


async def turn() -> None:
    """Wait until the loop has seen what the kernel has to tell by now."""
    reading, writing = os.pipe()
    seen = asyncio.Event()
    reader = PipeReader(asyncio.get_running_loop(), reading, lambda _: seen.set(), lambda: None)
    os.write(writing, b"!")
    await seen.wait()
    reader.close()
    os.close(writing)


@linux_only
async def test_data_alone_does_not_wake_who_reads_at_leisure() -> None:
    reading, writing = os.pipe()
    heard: list[bytes] = []
    reader = LazyReader(asyncio.get_running_loop(), reading, heard.append, lambda: None)
    os.write(writing, b"hold")
    await turn()
    assert heard == []
    reader.drain()
    assert heard == [b"hold"]
    reader.close()
    os.close(writing)


async def test_who_reads_at_leisure_reads_all_there_is_when_the_other_side_is_gone() -> None:
    reading, writing = os.pipe()
    heard: list[bytes] = []
    ended = asyncio.Event()
    LazyReader(asyncio.get_running_loop(), reading, heard.append, ended.set)
    os.write(writing, b"hold")
    os.close(writing)
    async with asyncio.timeout(10):
        await ended.wait()
    assert b"".join(heard) == b"hold"


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Stub:
    """Stands for the process of a companion, and keeps its ends of the pipes."""

    pid = 0

    def __init__(self, _command: Sequence[str], *, pass_fds: Sequence[int], **_: object) -> None:
        self.orders, self.bell, *self.others = [os.dup(one) for one in pass_fds]
        os.set_blocking(self.bell, False)
        Stub.last = self

    last: Stub

    def rings(self) -> int:
        try:
            return len(os.read(self.bell, 1000))
        except BlockingIOError:
            return 0

    def wait(self, *_: object) -> int:
        return 0


async def test_a_companion_is_rung_for_before_its_pipe_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the pipe does not take stays with the worker, and is lost with it."""
    monkeypatch.setattr(subprocess, "Popen", Stub)
    companion = Companion({"beat": 5.0}, lambda *_: None, lambda: None)
    stub = Stub.last
    assert stub.rings() == 1, "for what comes first"
    message = b"x" * 1024
    told = 0
    while told + len(message) < MOST_UNHEARD // 2:
        companion.tell(message)
        told += len(message)
    assert stub.rings() == 0, "not for each job"
    while told < MOST_UNHEARD:
        companion.tell(message)
        told += len(message)
    assert stub.rings() == 1
    companion.tell(b"beat now", rings=True)
    assert stub.rings() == 1
    await companion.close()
    for end in (stub.orders, stub.bell, *stub.others):
        os.close(end)


@linux_only
async def test_a_companion_hears_what_its_pipe_could_not_take_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd of jobs fills any pipe, and that of a user who has very many holds little; the rest waited for a beat."""
    monkeypatch.setattr(subprocess, "Popen", Stub)
    companion = Companion({"beat": 5.0}, lambda *_: None, lambda: None)
    stub = Stub.last
    os.read(stub.orders, 4096)
    assert stub.rings() == 1, "for what comes first"
    page = fcntl.fcntl(stub.orders, fcntl.F_SETPIPE_SZ, 1)
    assert 3 * page < MOST_UNHEARD
    companion.tell(b"x" * 3 * page)
    for _ in range(3):
        assert stub.rings() == 1
        assert len(os.read(stub.orders, MOST_UNHEARD)) == page
        await turn()
    await companion.close()
    for end in (stub.orders, stub.bell, *stub.others):
        os.close(end)


@linux_only
async def test_a_companion_that_cannot_be_started_leaves_no_files_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again and again, and each time took four of the files that a process may have."""

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    before = open_files()
    with pytest.raises(BlockingIOError):
        Companion({"beat": 5.0}, lambda *_: None, lambda: None)
    assert open_files() == before

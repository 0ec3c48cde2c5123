"""Pipes to the lease keeper: data alone does not wake it; it is woken before its pipe is full."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rota.worker.lease_keeper.client import MOST_UNREAD, LeaseKeeperProcess
from rota.worker.lease_keeper.pipe import LazyReader, PipeReader

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it reads as data comes")


async def one_iteration() -> None:
    """Wait until the loop has seen all events that the kernel has by now."""
    reading, writing = os.pipe()
    seen = asyncio.Event()
    reader = PipeReader(asyncio.get_running_loop(), reading, lambda _: seen.set(), lambda: None)
    os.write(writing, b"!")
    await seen.wait()
    reader.close()
    os.close(writing)


@linux_only
async def test_data_alone_does_not_wake_a_lazy_reader() -> None:
    reading, writing = os.pipe()
    received: list[bytes] = []
    reader = LazyReader(asyncio.get_running_loop(), reading, received.append, lambda: None)
    os.write(writing, b"hold")
    await one_iteration()
    assert received == []
    reader.drain()
    assert received == [b"hold"]
    reader.close()
    os.close(writing)


async def test_a_lazy_reader_reads_all_data_when_the_writer_is_gone() -> None:
    reading, writing = os.pipe()
    received: list[bytes] = []
    ended = asyncio.Event()
    LazyReader(asyncio.get_running_loop(), reading, received.append, ended.set)
    os.write(writing, b"hold")
    os.close(writing)
    async with asyncio.timeout(10):
        await ended.wait()
    assert b"".join(received) == b"hold"


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Stub:
    """Stands for a lease-keeper process, and keeps its ends of the pipes."""

    pid = 0

    def __init__(self, _command: Sequence[str], *, pass_fds: Sequence[int], **_: object) -> None:
        self.orders, self.wake_up, *self.others = [os.dup(one) for one in pass_fds]
        os.set_blocking(self.wake_up, False)
        Stub.last = self

    last: Stub

    def wake_ups(self) -> int:
        try:
            return len(os.read(self.wake_up, 1000))
        except BlockingIOError:
            return 0

    def wait(self, *_: object) -> int:
        return 0


async def test_a_lease_keeper_is_woken_before_its_pipe_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that the pipe does not take stays in the worker, and is lost with it."""
    monkeypatch.setattr(subprocess, "Popen", Stub)
    keeper = LeaseKeeperProcess({"beat": 5.0}, lambda *_: None, lambda: None)
    stub = Stub.last
    assert stub.wake_ups() == 1, "for the setup"
    message = b"x" * 1024
    sent = 0
    while sent + len(message) < MOST_UNREAD // 2:
        keeper.send(message)
        sent += len(message)
    assert stub.wake_ups() == 0, "not for each job"
    while sent < MOST_UNREAD:
        keeper.send(message)
        sent += len(message)
    assert stub.wake_ups() == 1
    keeper.send(b"renew now", wake=True)
    assert stub.wake_ups() == 1
    await keeper.close()
    for end in (stub.orders, stub.wake_up, *stub.others):
        os.close(end)


@linux_only
async def test_a_lease_keeper_reads_what_its_pipe_could_not_take_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many jobs fill any pipe, and a user with very many pipes gets small ones; the rest waited for a beat."""
    monkeypatch.setattr(subprocess, "Popen", Stub)
    keeper = LeaseKeeperProcess({"beat": 5.0}, lambda *_: None, lambda: None)
    stub = Stub.last
    os.read(stub.orders, 4096)
    assert stub.wake_ups() == 1, "for the setup"
    page = fcntl.fcntl(stub.orders, fcntl.F_SETPIPE_SZ, 1)
    assert 3 * page < MOST_UNREAD
    keeper.send(b"x" * 3 * page)
    for _ in range(3):
        assert stub.wake_ups() == 1
        assert len(os.read(stub.orders, MOST_UNREAD)) == page
        await one_iteration()
    await keeper.close()
    for end in (stub.orders, stub.wake_up, *stub.others):
        os.close(end)


@linux_only
async def test_a_lease_keeper_that_cannot_be_started_leaves_no_files_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start is repeated, and each time left four files open."""

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    before = open_files()
    with pytest.raises(BlockingIOError):
        LeaseKeeperProcess({"beat": 5.0}, lambda *_: None, lambda: None)
    assert open_files() == before

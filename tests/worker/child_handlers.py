"""Handlers that child processes import by name."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import NoReturn

from rota import Rota
from rota.worker import Cancelled, GiveUp, RetryLater, current

_libc = ctypes.CDLL(None)


def add(a: int, b: int) -> int:
    return a + b


async def aadd(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


def whoami() -> list[object]:
    job = current()
    job.progress(1, 1, "here")
    job.log("from the child")
    return [job.id, job.attempt, os.getpid(), os.getpgid(0), job.deadline is not None]


def logs_and_reports() -> None:
    logging.getLogger("shop").warning("from the child")
    current().progress(1, 1)


def fails() -> NoReturn:
    raise LookupError("nothing there")


def gives_up() -> NoReturn:
    raise GiveUp("no use")


def later(marker: str) -> str:
    path = Path(marker)
    if path.exists():
        return "done"
    path.touch()
    raise RetryLater("1ms")


def exits(status: int) -> NoReturn:
    sys.stderr.write("these are my last words\n")
    sys.stderr.flush()
    os._exit(status)


def crashes() -> NoReturn:
    _libc.memset(0, 0, 1)
    raise AssertionError


def opaque() -> object:
    return object()


def sleeps(marker: str) -> NoReturn:
    """Start a grandchild, say so, and sleep for ever, both."""
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(marker).write_text(f"{os.getpid()} {grandchild.pid}", encoding="ascii")
    while True:
        time.sleep(600)


def listens(marker: str) -> NoReturn:
    Path(marker).write_text("begun", encoding="ascii")
    while not current().cancelled():
        time.sleep(0.005)
    Path(marker).write_text("told", encoding="ascii")
    raise Cancelled


def holds_the_gil(seconds: float) -> str:
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    return "kept"


async def exits_here(status: int = 7) -> NoReturn:
    os._exit(status)


async def crashes_here() -> NoReturn:
    _libc.memset(0, 0, 1)
    raise AssertionError


async def forever(marker: str) -> None:
    Path(marker).write_text(str(os.getpid()), encoding="ascii")  # noqa: ASYNC240 - a few bytes
    await asyncio.sleep(600)


def leaves_a_child(marker: str) -> None:
    """Fork, as a pool of processes does: the child has all that this process has open, and outlives it."""
    child = os.fork()
    if not child:
        time.sleep(600)
        os._exit(0)
    Path(marker).write_text(str(child), encoding="ascii")
    time.sleep(600)


async def quick() -> int:
    return 1


def pays(marker: str) -> object:
    """Take one guarded step, whose effect is a line in a file."""

    def pay() -> dict[str, int]:
        with Path(marker).open("a", encoding="ascii") as book:
            book.write("paid\n")
        return {"paid": 7}

    return current().step("pay", pay)


def books(place: str, *, dies: bool = False) -> object:
    """Take a step in a transaction of its own on the store's database; the first attempt may die after the commit."""
    job = current()
    with closing(sqlite3.connect(place)) as connection:

        def book() -> int:
            connection.execute("INSERT INTO booking VALUES (?)", (job.attempt,))
            return job.attempt

        with connection:
            booked = job.step("book", book, tx=connection)
    if dies and job.attempt == 1:
        os._exit(1)
    if job.attempt == 1:
        raise ConnectionError("after the commit")
    return booked


async def pays_two_at_once() -> list[str]:
    """Take two guarded steps side by side."""

    async def pay(word: str) -> str:
        await asyncio.sleep(0)
        return word

    job = current()
    return list(await asyncio.gather(job.astep("a", lambda: pay("A")), job.astep("b", lambda: pay("B"))))


async def loses_patience() -> str:
    """Give up on a step before its answer can have come."""
    with suppress(TimeoutError):
        await asyncio.wait_for(current().astep("slow", _nothing), 0)
    return "went on"


async def _nothing() -> None: ...


def waits_in_a_child() -> list[object]:
    """Sleep, wait for an event and call a job."""
    job = current()
    job.sleep("nap", 0.1)
    paid = job.wait("paid", event="paid", timeout="60s")
    return [paid, job.call("sum", _ADD, 3, 4).result(), job.attempt]


async def waits_in_a_child_async() -> list[object]:
    """Sleep, wait for an event and call a job, in a coroutine."""
    job = current()
    await job.asleep("nap", 0.1)
    paid = await job.await_event("paid", event="paid", timeout="60s")
    return [paid, await (await job.acall("sum", _ADD, 3, 4)).aresult(), job.attempt]


def confuses_keys() -> None:
    """Use one key for two kinds of waits."""
    job = current()
    job.sleep("x", 0)
    job.wait("x", event="e")


_ADD = Rota().task(name="add")(add)

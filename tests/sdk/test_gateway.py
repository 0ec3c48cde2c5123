"""Submitting to a store in a file from any thread and any loop, without the portal's loop."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from rota import Rota
from rota.brokers.in_store import InStoreBroker
from rota.core.errors import InvalidRequest
from rota.ports.caller_tx import run_sync
from rota.stores.sqlite import SqliteStore
from rota.telemetry.events import Event, JobsSubmitted
from sdk.example_app import app_on, with_a_bad_queue


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Rota]:
    one = app_on(str(tmp_path / "rota.db"))
    yield one
    one.close()


def stored(app: Rota) -> int:
    connection = sqlite3.connect(app.url)
    ((count,),) = connection.execute("SELECT count(*) FROM rota_job")
    connection.close()
    return int(count)


@contextmanager
def busy_portal(app: Rota) -> Iterator[None]:
    """Keep the portal's loop from turning."""
    begun, gate = threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        gate.wait()

    app.portal.loop.call_soon_threadsafe(block)
    begun.wait()
    try:
        yield
    finally:
        gate.set()


async def test_nobody_waits_for_the_portal(app: Rota) -> None:
    note = app.tasks["note"]
    note.submit(0)
    with busy_portal(app):
        async with asyncio.timeout(60):
            await asyncio.to_thread(note.submit, 1)
            await asyncio.gather(*(note.asubmit(number) for number in range(20)))
            await app.asubmit_many([note.call(number) for number in range(20)])
    assert stored(app) == 42


async def test_threads_and_loops_submit_at_once(app: Rota) -> None:
    note = app.tasks["note"]

    def by_thread() -> None:
        for number in range(20):
            note.submit(number)

    async def by_tasks() -> None:
        await asyncio.gather(*(note.asubmit(number) for number in range(20)))

    with ThreadPoolExecutor(8) as pool:
        threads = [pool.submit(by_thread) for _ in range(4)]
        loops = [pool.submit(asyncio.run, by_tasks()) for _ in range(3)]
        await by_tasks()
        for one in (*threads, *loops):
            await asyncio.wrap_future(one)
    assert stored(app) == 160


async def test_one_that_is_refused_does_not_fail_its_neighbours(app: Rota) -> None:
    note = app.tasks["note"]
    await note.asubmit(0)
    calls = [note.asubmit(1), with_a_bad_queue(note).asubmit(2), note.asubmit(3)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(answer, InvalidRequest) for answer in answers] == [False, True, False]
    assert stored(app) == 3


async def test_what_its_own_loop_handed_in_is_served_before_an_app_closes(app: Rota) -> None:
    note = app.tasks["note"]
    await note.asubmit(0)
    calls = [asyncio.create_task(note.asubmit(number)) for number in range(50)]
    # Some are under way by then, and some still wait in the batcher.
    for _ in range(2):
        await asyncio.sleep(0)
    calls += [asyncio.create_task(note.asubmit(number)) for number in range(50)]
    await asyncio.sleep(0)
    app.close()
    assert len(await asyncio.gather(*calls)) == 100
    assert stored(app) == 101
    await note.asubmit(1)
    assert stored(app) == 102


async def test_what_another_loop_handed_in_is_served_before_an_app_closes(app: Rota) -> None:
    note = app.tasks["note"]
    handed_in = threading.Event()

    async def live() -> None:
        await note.asubmit(0)
        calls = [asyncio.create_task(note.asubmit(number)) for number in range(50)]
        await asyncio.sleep(0)
        handed_in.set()
        await asyncio.gather(*calls)

    living = asyncio.create_task(asyncio.to_thread(asyncio.run, live()))
    await asyncio.to_thread(handed_in.wait)
    await asyncio.to_thread(app.close)
    await living
    assert stored(app) == 51


async def test_a_submission_that_nobody_waits_for_any_more_harms_nobody(app: Rota) -> None:
    note = app.tasks["note"]
    await note.asubmit(0)
    calls = [asyncio.create_task(note.asubmit(number)) for number in range(10)]
    await asyncio.sleep(0)
    calls[0].cancel()
    calls[5].cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(answer, asyncio.CancelledError) for answer in answers] == [n in {0, 5} for n in range(10)]
    assert 9 <= stored(app) <= 11


async def test_listeners_are_told_on_the_portals_loop(app: Rota) -> None:
    engine = (await app.portal.acall(app.link())).engine
    assert engine is not None
    answer: list[int] = []
    has_heard = threading.Event()

    def heard(event: Event) -> None:
        if isinstance(event, JobsSubmitted):
            answer.append(threading.get_ident())
            if len(answer) == 2:
                has_heard.set()

    engine.telemetry.listen(heard)
    await asyncio.to_thread(app.tasks["note"].submit, 1)
    await app.tasks["note"].asubmit(2)
    assert await asyncio.to_thread(has_heard.wait, 60)
    assert set(answer) == {app.portal._thread.ident}


async def test_a_listener_is_woken_by_work_from_another_thread() -> None:
    # So that the loop raises if it is used from another thread.
    asyncio.get_running_loop().set_debug(True)
    store = await SqliteStore.open(":memory:")
    broker = InStoreBroker(store)
    with broker.subscribe(["default"]) as subscription:
        waiting = asyncio.create_task(subscription.wait(timedelta(hours=1)))
        await asyncio.sleep(0)
        threading.Thread(target=run_sync, args=(broker.announce({"default"}),)).start()
        async with asyncio.timeout(60):
            await waiting
    await broker.close()
    await store.close()


def test_an_app_in_memory_goes_through_the_portal() -> None:
    app = app_on(":memory:")
    handle = app.tasks["note"].submit(1)
    assert handle.state == "pending"
    assert asyncio.run(app.tasks["note"].asubmit(2)).state == "pending"
    app.close()


def test_a_call_on_the_portals_own_loop_is_refused(app: Rota) -> None:
    app.tasks["note"].submit(0)

    async def submit() -> None:
        app.tasks["note"].submit(1)

    with pytest.raises(RuntimeError, match="own loop"):
        app.portal.call(submit())


FORKING = """
import os, sys
from rota import Rota
app = Rota(sys.argv[1])
@app.task
def note(number: int) -> None: ...
note.submit(0)
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        for number in range(10):
            note.submit(number)
        app.close()
        os._exit(0)
    children.append(child)
for number in range(10):
    note.submit(number)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
note.submit(1)
app.close()
"""


def test_a_forked_process_starts_anew(app: Rota) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKING, app.url], check=True, timeout=120)
    assert stored(app) == 42


FORKING_IN_THE_MIDST = """
import os, sys, threading
from rota import Rota
app = Rota(sys.argv[1])
@app.task
def note(number: int) -> None: ...
is_over = False
def submit() -> None:
    while not is_over:
        note.submit(0)
note.submit(0)
others = [threading.Thread(target=submit) for _ in range(2)]
for other in others:
    other.start()
for _ in range(5):
    child = os.fork()
    if not child:
        note.submit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
is_over = True
for other in others:
    other.join()
app.close()
"""


def test_a_process_forked_while_others_submit_is_not_locked_out(app: Rota) -> None:
    """It would wait forever for a lock that no thread holds."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKING_IN_THE_MIDST, app.url], check=True, timeout=120)


OUTLIVING = """
import os, sys
from rota import Rota
app = Rota(sys.argv[1])
@app.task
def note(number: int) -> None: ...
note.submit(0)
to_parent, to_child = os.pipe(), os.pipe()
child = os.fork()
if not child:
    note.submit(1)
    os.write(to_parent[1], b".")
    os.read(to_child[0], 1)
    note.submit(2)
    app.close()
    os._exit(0)
os.read(to_parent[0], 1)
app.close()
os.write(to_child[1], b".")
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_process_holds_locks_of_its_own(app: Rota) -> None:
    """Without, its parent would take the file for unused, and delete the log that its child writes to."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", OUTLIVING, app.url], check=True, timeout=120)
    assert stored(app) == 3


FORKING_WHILE_OPENING = """
import asyncio, os, sys, threading, time
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import StandardConnection
begun = threading.Event()
def connect(path):
    connection = StandardConnection(path)
    connection.rows("SELECT count(*) FROM sqlite_schema")
    begun.set()
    time.sleep(0.1)
    return connection
def open_store():
    asyncio.run(SqliteStore.open(sys.argv[1], connect=connect))
threading.Thread(target=open_store).start()
begun.wait()
child = os.fork()
if not child:
    folder = "/proc/self/fd"
    links = [os.readlink(f"{folder}/{name}") for name in os.listdir(folder) if os.path.exists(f"{folder}/{name}")]
    os._exit(any(link.startswith(sys.argv[1]) for link in links))
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_process_forked_while_a_file_is_opened_has_nothing_open(tmp_path: Path) -> None:
    path = str(tmp_path / "rota.db")
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKING_WHILE_OPENING, path], check=True, timeout=60)

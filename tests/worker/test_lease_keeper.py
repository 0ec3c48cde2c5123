"""The lease keeper: leases outlive a held GIL, and do not outlive the worker. Real processes and signals."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import resource
import signal
import struct
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rota.core.ids import JobId
from rota.core.lease import Claim, WorkerId
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.core.settlement import Reason
from rota.ports.client import AttemptReport
from rota.stores.sqlite import SqliteStore
from rota.worker.lease_keeper import process as process_module
from rota.worker.lease_keeper.process import LeaseKeeper, is_stopped
from rota.worker.lease_keeper.protocol import (
    LeaseKey,
    MessageBuffer,
    MessageType,
    child_groups_message,
    claim_id_message,
    empty_message,
    leases_message,
    read_child_groups,
    read_claim_id,
    read_leases,
    setup_message,
)
from rota.worker.lease_keeper.start import ends_normally, read_for
from worker.environment import OPERATOR, WorkerEnvironment, eventually
from worker.test_processes import gone, written

needs_pidfd = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="elsewhere only the end of the pipe shows the end"
)
PROGRAM = Path(__file__).with_name("worker_program.py")


@asynccontextmanager
async def worker_process(env: WorkerEnvironment, lease: float) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), str(env.path), json.dumps({"lease": lease}),
        env={**os.environ, "PYTHONPATH": f"{PROGRAM.parent.parent}:{os.environ.get('PYTHONPATH', '')}"},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            await process.wait()


def lease_keepers_of(pid: int) -> list[int]:
    """Find the lease keeper of a worker by its command line."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == pid and b"rota.worker.lease_keeper" in command:
                pids.append(int(entry.name))
    return pids


async def test_a_handler_that_holds_the_gil_for_three_leases_keeps_its_job(
    env: WorkerEnvironment, tmp_path: Path
) -> None:
    async with env.scheduler(), worker_process(env, lease=2):
        other = await env.submit("forever", json.dumps({"marker": str(tmp_path / "marker")}))
        begun = (await env.until(other, lambda job: job.lease_until is not None)).lease_until
        # Only the lease keeper renews, so it is up.
        await env.until(other, lambda job: job.lease_until not in {begun, None})
        await env.engine.cancel([other], OPERATOR)
        await env.end_of(other)
        job = await env.end_of(await env.submit("holds_the_gil", '{"seconds": 6.5}'))
    assert (job.state, job.result, job.fence, job.crashes) == (State.COMPLETED, '"kept"', 1, 0)


@pytest.mark.parametrize("how", ["exits_here", "crashes_here", "kill"])
async def test_the_jobs_of_a_dead_worker_are_handed_back_at_once(
    env: WorkerEnvironment, tmp_path: Path, how: str
) -> None:
    """With a lease of a minute, only the lease keeper can have handed them back."""
    marker = tmp_path / "marker"
    async with worker_process(env, lease=60) as process:
        job_id = await env.submit("forever", json.dumps({"marker": str(marker)}), max_attempts=5)
        await written(marker)
        at = time.monotonic()
        if how == "kill":
            process.kill()
        else:
            await env.submit(how)
        job = await env.until(job_id, lambda job: job.state is not State.RUNNING)
        took = time.monotonic() - at
    assert (job.state, job.crashes) == (State.PENDING, 1)
    assert took < 10
    assert job.error is not None
    assert job.error.kind == "WorkerDied"
    assert "'eve'" in job.error.message
    if how == "crashes_here":
        assert "crashes_here" in job.error.traceback


async def leased_to_a_stopped_worker(env: WorkerEnvironment, process: asyncio.subprocess.Process) -> JobId:
    """Submit a job that is leased to a worker which seems alive and does not read the answer to its claim."""
    store = env.engine.store
    assert isinstance(store, SqliteStore)
    async with asyncio.timeout(30):
        while True:
            await eventually(lambda: store._handoff is not None and bool(store._handoff.used_checksums()))
            process.send_signal(signal.SIGSTOP)
            await eventually(lambda: is_stopped(process.pid))
            job_id = await env.submit("quick")
            if (await env.look(job_id)).state is State.RUNNING:
                return job_id
            # Its claim had just ended.
            process.send_signal(signal.SIGCONT)
            await env.end_of(job_id)


@pytest.mark.skipif(sys.platform != "linux", reason="claims wait for submissions only on Linux")
@pytest.mark.parametrize("is_second", [False, True], ids=["first lease keeper", "second lease keeper"])
async def test_a_job_leased_to_a_dead_worker_without_its_knowing_runs_elsewhere_at_once(
    env: WorkerEnvironment, *, is_second: bool
) -> None:
    """No attempt and no crash is counted. There is no reaper here: only a lease keeper can hand the job back."""

    async def quick() -> str:
        return "elsewhere"

    async with worker_process(env, lease=15) as process:
        if is_second:
            await eventually(lambda: bool(lease_keepers_of(process.pid)))
            (first,) = lease_keepers_of(process.pid)
            os.kill(first, signal.SIGKILL)
            await eventually(lambda: lease_keepers_of(process.pid) not in ([], [first]))
        job_id = await leased_to_a_stopped_worker(env, process)
        at = time.monotonic()
        process.kill()
        async with env.worker(quick, name="ben"):
            job = await env.end_of(job_id)
        took = time.monotonic() - at
    assert (job.state, job.worker, job.result) == (State.COMPLETED, "ben", '"elsewhere"')
    assert (job.fence, job.attempts, job.crashes) == (2, 1, 0)
    assert took < 10


@needs_pidfd
async def test_a_workers_death_is_noticed_though_another_process_holds_its_pipe_open(
    env: WorkerEnvironment, tmp_path: Path
) -> None:
    """A process pool that outlives it holds its end of the pipe; leases were renewed for a quarter of an hour."""
    marker = tmp_path / "marker"
    async with worker_process(env, lease=60) as process:
        job_id = await env.submit("leaves_a_child", json.dumps({"marker": str(marker)}), max_attempts=5)
        child = int(await written(marker))
        try:
            process.kill()
            job = await env.until(job_id, lambda job: job.state is not State.RUNNING)
        finally:
            os.kill(child, signal.SIGKILL)
    assert (job.state, job.crashes) == (State.PENDING, 1)


async def test_a_job_that_kills_its_workers_kills_only_itself_in_the_end(env: WorkerEnvironment) -> None:
    job_id = await env.submit("exits_here", max_attempts=10)
    for _ in range(2):
        async with worker_process(env, lease=60) as process:
            await process.wait()
        await env.until(job_id, lambda job: job.state is not State.RUNNING)
    async with worker_process(env, lease=60) as process:
        job = await env.end_of(job_id)
        assert (job.state, job.reason, job.crashes) == (State.DEAD, Reason.POISON, 3)
        assert process.returncode is None
        assert (await env.end_of(await env.submit("quick"))).state is State.COMPLETED


def test_a_delayed_start_reads_more_than_a_pipe_holds_and_ends_when_the_worker_is_gone() -> None:
    reading, writing = os.pipe()
    data = b"x" * 300_000

    def write() -> None:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(data)

    writer = threading.Thread(target=write)
    writer.start()
    # For an hour, were it not for the end of the pipe.
    assert read_for(reading, 3600) == data
    writer.join()
    os.close(reading)


def test_a_delayed_start_takes_no_longer_than_given() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"hold")
    assert read_for(reading, 0.1) == b"hold"
    assert read_for(reading, 0.0) == b""
    os.close(reading)
    os.close(writing)


def test_a_delayed_start_works_with_more_than_a_thousand_open_files() -> None:
    """Its descriptors have the numbers that they have in the worker, and select() refuses those above 1,023."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], min(2048, limits[1])), limits[1]))
    reading, writing = os.pipe()
    high = fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, 1500)
    try:
        os.write(writing, b"hold")
        assert read_for(high, 0.1) == b"hold"
    finally:
        for descriptor in (reading, writing, high):
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_goodbye_is_told_from_bytes_that_only_look_like_one() -> None:
    goodbye = empty_message(MessageType.NORMAL_END)
    setup = setup_message({"name": "eve"})
    assert ends_normally(setup + leases_message(MessageType.HOLD, [(JobId(1), 1)]) + goodbye)
    # A process group whose number is 7, and a worker that died in the middle of a message.
    assert child_groups_message([7]).endswith(goodbye)
    for received in (
        b"",
        setup,
        setup + child_groups_message([7]),
        goodbye[:-1],
        goodbye + empty_message(MessageType.ALIVE),
    ):
        assert not ends_normally(received)


class InProcessKeeper:
    """A lease keeper in this process, and the worker's ends of its pipes."""

    def __init__(
        self, env: WorkerEnvironment, held: Iterable[LeaseKey], claim_ids: Iterable[str], **setup: object
    ) -> None:
        full = {
            "path": sys.path, "factory": "worker.environment:open_source", "argument": {"path": str(env.path)},
            "name": "eve", "pid": os.getpid(), "lease": 7200.0, "beat": 3600.0, "silence": 7200.0, **setup,
        }  # fmt: skip
        (orders, self._orders), (answers, answer), (crash_text, crash), (wake_up, self._wake_up) = (
            os.pipe() for _ in range(4)
        )
        self._open = [answers, crash_text, crash, self._wake_up]
        received = setup_message(full) + leases_message(MessageType.HOLD, held)
        received += b"".join(claim_id_message(name) for name in claim_ids)
        keeper = LeaseKeeper(orders, wake_up, answer, crash_text, received, time.monotonic() - 3600)
        self._running = asyncio.create_task(keeper.run())

    def renew_now(self) -> None:
        os.write(self._orders, empty_message(MessageType.RENEW_NOW))
        os.write(self._wake_up, b"!")

    async def end(self, *, says_goodbye: bool = True) -> None:
        """Close the worker's end of the pipe, and wait for the lease keeper to end."""
        if says_goodbye:
            os.write(self._orders, empty_message(MessageType.NORMAL_END))
        os.close(self._orders)
        await self._running
        for descriptor in self._open:
            os.close(descriptor)


@asynccontextmanager
async def in_process_keeper(
    env: WorkerEnvironment, job_id: JobId, fence: int, **setup: object
) -> AsyncIterator[InProcessKeeper]:
    """Run a lease keeper in this process for a worker with one job: started an hour ago, with a beat of an hour."""
    keeper = InProcessKeeper(env, [(job_id, fence)], (), **setup)
    try:
        yield keeper
    finally:
        await keeper.end()


async def test_no_lease_is_renewed_for_a_worker_that_was_stopped_until_it_goes_on(
    env: WorkerEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await env.submit("quick")
    (job,) = await env.engine.claim(Claim(WorkerId("eve", "e"), 1, types=("quick",)))
    worker = await asyncio.create_subprocess_exec("sleep", "600")
    worker.send_signal(signal.SIGSTOP)
    await eventually(lambda: is_stopped(worker.pid))
    looks: list[int] = []

    def look(pid: int) -> bool:
        looks.append(pid)
        return is_stopped(pid)

    monkeypatch.setattr(process_module, "is_stopped", look)
    try:
        async with in_process_keeper(env, job_id, job.fence, pid=worker.pid) as keeper:
            for beats in range(1, 4):
                await eventually(lambda beats=beats: len(looks) >= beats)  # type: ignore[misc]
                keeper.renew_now()
            assert (await env.look(job_id)).lease_until == job.lease_until
            worker.send_signal(signal.SIGCONT)
            await eventually(lambda: not is_stopped(worker.pid))
            keeper.renew_now()
            await env.until(job_id, lambda now: now.lease_until not in {job.lease_until, None})
    finally:
        worker.kill()
        await worker.wait()
    assert set(looks) == {worker.pid}


@needs_pidfd
@pytest.mark.parametrize("is_alive", [True, False], ids=["lives", "is dead"])
async def test_the_last_claim_is_handed_back_only_if_the_worker_is_dead(
    env: WorkerEnvironment, monkeypatch: pytest.MonkeyPatch, *, is_alive: bool
) -> None:
    """A worker whose pipe has ended may live, and start the jobs of its last claim at this moment."""
    monkeypatch.setattr(process_module, "LONGEST_DYING_SECONDS", 0.05)
    held_id, asked_id = await env.submit("quick", max_attempts=5), await env.submit("quick", max_attempts=5)
    eve = WorkerId("eve", "e")
    (held,) = await env.engine.claim(Claim(eve, 1, types=("quick",)))
    (given,) = await env.engine.claim(Claim(eve, 1, types=("quick",), claim_id="eve-7"))
    assert (held.id, given.id) == (held_id, asked_id)
    worker = await asyncio.create_subprocess_exec("sleep", "600")
    watched = os.pidfd_open(worker.pid)
    if not is_alive:
        worker.kill()
        await worker.wait()
    try:
        keeper = InProcessKeeper(env, [(held_id, held.fence)], ["eve-7"], process=watched, boot="e")
        await keeper.end(says_goodbye=False)
        states = [(await env.look(job_id)).state for job_id in (held_id, asked_id)]
    finally:
        os.close(watched)
        if is_alive:
            worker.kill()
            await worker.wait()
    assert states == [State.PENDING, State.RUNNING if is_alive else State.PENDING]


async def test_a_delayed_start_does_not_delay_the_first_renewal(env: WorkerEnvironment) -> None:
    """Its first beat is now and not in an hour."""
    job_id = await env.submit("quick")
    (job,) = await env.engine.claim(Claim(WorkerId("eve", "e"), 1, types=("quick",)))
    async with in_process_keeper(env, job_id, job.fence):
        await env.until(job_id, lambda now: now.lease_until not in {job.lease_until, None})


async def ended_process() -> int:
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    return process.pid


async def test_a_worker_is_not_taken_for_dead_because_its_process_id_is_unknown(env: WorkerEnvironment) -> None:
    """In another namespace than the worker's, no process has the worker's id, though the worker lives."""
    job_id = await env.submit("quick")
    (job,) = await env.engine.claim(Claim(WorkerId("eve", "e"), 1, types=("quick",)))
    async with in_process_keeper(env, job_id, job.fence, pid=await ended_process()):
        now = await env.until(job_id, lambda now: now.lease_until != job.lease_until)
    assert (now.state, now.crashes) == (State.RUNNING, 0)


@needs_pidfd
async def test_a_dead_worker_is_noticed_though_its_process_id_is_reused(env: WorkerEnvironment) -> None:
    """Another process, here the test itself, has the id before the lease keeper is up."""
    job_id = await env.submit("quick", max_attempts=5)
    (job,) = await env.engine.claim(Claim(WorkerId("eve", "e"), 1, types=("quick",)))
    process = await asyncio.create_subprocess_exec("sleep", "600")
    watched = os.pidfd_open(process.pid)
    process.kill()
    await process.wait()
    async with in_process_keeper(env, job_id, job.fence, process=watched):
        now = await env.until(job_id, lambda now: now.state is not State.RUNNING)
    os.close(watched)
    assert (now.state, now.crashes) == (State.PENDING, 1)


async def test_the_children_of_a_dead_worker_die(env: WorkerEnvironment, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    async with worker_process(env, lease=60) as process:
        await env.submit("sleeps", json.dumps({"marker": str(marker)}))
        pids = (await written(marker)).split()
        process.kill()
        for pid in pids:
            await gone(int(pid))


async def test_a_stopped_worker_loses_its_lease_and_its_late_settlement(env: WorkerEnvironment) -> None:
    async with worker_process(env, lease=1) as process:
        job_id = await env.submit("holds_the_gil", '{"seconds": 1}')
        await env.until(job_id, lambda job: job.state is State.RUNNING)
        process.send_signal(signal.SIGSTOP)
        async with env.scheduler():
            await env.until(job_id, lambda job: job.crashes == 1)
        (taken,) = await env.engine.claim(Claim(WorkerId("ben", "b"), 1, types=("holds_the_gil",)))
        await env.engine.settle([AttemptReport(job_id, taken.fence, Succeeded('"ben"'))])
        before = await env.look(job_id)
        process.send_signal(signal.SIGCONT)
        await env.end_of(await env.submit("quick"))
    assert await env.look(job_id) == before
    assert before.result == '"ben"'


async def test_a_dead_lease_keeper_is_replaced_and_leases_are_renewed_meanwhile(
    env: WorkerEnvironment, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    async with env.scheduler(), worker_process(env, lease=2) as process:
        job_id = await env.submit("forever", json.dumps({"marker": str(marker)}))
        await written(marker)
        await eventually(lambda: bool(lease_keepers_of(process.pid)))
        (first,) = lease_keepers_of(process.pid)
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: lease_keepers_of(process.pid) not in ([], [first]))
        until = (await env.look(job_id)).lease_until
        await env.until(job_id, lambda job: job.lease_until != until)
        job = await env.look(job_id)
        assert (job.state, job.fence, job.crashes) == (State.RUNNING, 1, 0)
    assert (await env.look(job_id)).state is State.PENDING


async def test_a_worker_that_ends_normally_leaves_no_lease_keeper(env: WorkerEnvironment) -> None:
    async with worker_process(env, lease=2) as process:
        await env.end_of(await env.submit("quick"))
        await eventually(lambda: bool(lease_keepers_of(process.pid)))
        (keeper,) = lease_keepers_of(process.pid)
    await gone(keeper)


def test_messages_arrive_whole_in_whatever_pieces() -> None:
    leases = [(n, n * 7) for n in range(1, 40)]
    sent = (
        leases_message(MessageType.HOLD, leases) + empty_message(MessageType.ALIVE) + child_groups_message([1, 99_999])  # type: ignore[arg-type]
        + leases_message(MessageType.RELEASE, leases[:3]) + claim_id_message("eve-7")  # type: ignore[arg-type]
    )  # fmt: skip
    for size in (1, 2, 5, 17, 1000):
        messages = MessageBuffer()
        received = [one for start in range(0, len(sent), size) for one in messages.feed(sent[start : start + size])]
        assert [kind for kind, _ in received] == [
            MessageType.HOLD,
            MessageType.ALIVE,
            MessageType.CHILD_GROUPS,
            MessageType.RELEASE,
            MessageType.CLAIM_ID,
        ]
        assert read_leases(received[0][1]) == leases
        assert read_child_groups(received[2][1]) == [1, 99_999]
        assert read_claim_id(received[4][1]) == "eve-7"


def test_a_message_of_another_release_is_skipped() -> None:
    unknown = struct.pack(">IB", 3, 200) + b"abc"
    received = list(MessageBuffer().feed(unknown + empty_message(MessageType.ALIVE)))
    assert received == [(MessageType.ALIVE, b"")]


async def test_a_stopped_process_is_seen_as_such() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(60)")
    assert not is_stopped(process.pid)
    process.send_signal(signal.SIGSTOP)
    await eventually(lambda: is_stopped(process.pid))
    process.kill()
    await process.wait()
    assert not is_stopped(process.pid)

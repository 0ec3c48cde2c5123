"""Handlers in child processes: killed when necessary, with their error output in the report."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.lease import Claim, WorkerId
from rota.core.lifecycle import State
from rota.core.log_lines import lines_of
from rota.core.outcome import Lost
from rota.core.settlement import Reason
from rota.ports.client import AttemptReport
from rota.worker import Handler, handler_of
from rota.worker.handlers import isolated
from rota.worker.intake import MOST_ISOLATED
from worker import child_handlers as children
from worker.environment import OPERATOR, WorkerEnvironment, eventually

SETTINGS: dict[str, Any] = {
    "concurrency": 2,
    "lease": timedelta(seconds=2),
    "beat": timedelta(milliseconds=250),
    "stop_grace": timedelta(milliseconds=300),
}


async def written(path: Path) -> str:
    """Wait for a file that another process writes."""
    await eventually(lambda: path.exists() and path.stat().st_size > 0)
    return path.read_text(encoding="ascii")  # noqa: ASYNC240 - a few bytes


async def gone(pid: int) -> None:
    """Wait until a process has ended."""

    def is_gone() -> bool:
        try:
            return b") Z" in Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return True

    await eventually(is_gone)


@pytest.mark.parametrize("function", [children.add, children.aadd])
async def test_a_child_runs_sync_and_async_handlers(env: WorkerEnvironment, function: object) -> None:
    async with env.worker(handler_of(function, type="sum", executor="process"), **SETTINGS):  # type: ignore[arg-type]
        job = await env.end_of(await env.submit("sum", '{"a": 2, "b": 3}'))
    assert (job.state, job.result) == (State.COMPLETED, "5")


async def test_a_child_knows_its_job_and_leads_its_own_group(env: WorkerEnvironment) -> None:
    handler = handler_of(children.whoami, executor="process", timeout=timedelta(minutes=1))
    async with env.worker(handler, **SETTINGS):
        job_id = await env.submit("whoami")
        job = await env.end_of(job_id)
    (attempt,) = await env.engine.store.attempts(job_id)
    _, number, pid, group, has_deadline = json.loads(job.result or "null")
    assert (number, has_deadline) == (1, True)
    assert pid == group != os.getpgid(0)
    assert [line.message for line in lines_of(attempt.log_tail or "")] == ["from the child"]


async def test_what_a_child_raises_is_judged_as_the_registry_says(env: WorkerEnvironment) -> None:
    handlers = (
        handler_of(children.fails, executor="process"),
        handler_of(children.fails, type="fatal", executor="process", give_up_on=(LookupError,)),
        handler_of(children.fails, type="picky", executor="process", retry_on=(OSError,)),
        handler_of(children.gives_up, executor="process"),
        handler_of(children.opaque, executor="process"),
        handler_of(children.add, executor="process"),
    )
    async with env.worker(*handlers, **SETTINGS):
        names = ("fails", "fatal", "picky", "gives_up", "opaque", "add")
        jobs = await env.ends_of(
            [await env.submit(name, '{"x": 1}' if name == "add" else "null", max_attempts=1) for name in names]
        )
    assert [job.reason for job in jobs] == [Reason.EXHAUSTED, *[Reason.PERMANENT] * 5]
    assert jobs[0].error is not None
    assert (jobs[0].error.kind, jobs[0].error.message) == ("LookupError", "nothing there")
    assert "in fails" in jobs[0].error.traceback


async def test_a_child_may_ask_to_be_called_later(env: WorkerEnvironment, tmp_path: Path) -> None:
    async with env.scheduler(), env.worker(handler_of(children.later, executor="process"), **SETTINGS):
        payload = json.dumps({"marker": str(tmp_path / "marker")})
        job = await env.end_of(await env.submit("later", payload, max_attempts=1))
    assert (job.state, job.result) == (State.COMPLETED, '"done"')


async def test_the_job_of_a_child_that_exits_is_lost_with_its_stderr_and_poison_in_the_end(
    env: WorkerEnvironment,
) -> None:
    handlers = (handler_of(children.exits, executor="process"), handler_of(children.add, executor="process"))
    async with env.worker(*handlers, **SETTINGS):
        job_id = await env.submit("exits", '{"status": 3}', max_attempts=10)
        other = await env.end_of(await env.submit("add", '{"args": [1, 2]}'))
        job = await env.end_of(job_id)
    assert (job.state, job.reason, job.crashes) == (State.DEAD, Reason.POISON, 3)
    assert job.error is not None
    assert job.error.message == "the process that ran the handler ended with exit status 3"
    assert "these are my last words" in job.error.traceback
    assert other.result == "3"


async def test_a_segmentation_fault_is_reported_with_its_traceback(env: WorkerEnvironment) -> None:
    async with env.worker(handler_of(children.crashes, executor="process"), **SETTINGS):
        job = await env.end_of(await env.submit("crashes", max_attempts=1))
    assert job.error is not None
    assert "killed by SIGSEGV" in job.error.message
    assert "in crashes" in job.error.traceback


async def test_a_child_past_its_limit_is_killed_with_all_it_started(env: WorkerEnvironment, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    handlers = (handler_of(children.sleeps, executor="process"), handler_of(children.add, executor="process"))
    async with env.worker(*handlers, **{**SETTINGS, "concurrency": 1}):
        payload = json.dumps({"marker": str(marker)})
        job_id = await env.submit("sleeps", payload, timeout=timedelta(seconds=1.5), max_attempts=1)
        child, grandchild = map(int, (await written(marker)).split())
        job = await env.end_of(job_id)
        await gone(child)
        await gone(grandchild)
        other = await env.end_of(await env.submit("add", '{"args": [1, 2]}'))
    assert job.error is not None
    assert (job.error.kind, job.crashes, other.result) == ("HandlerTimedOut", 0, "3")


@pytest.mark.parametrize("name", ["listens", "sleeps"])
async def test_a_cancel_is_sent_to_a_child_and_enforced(env: WorkerEnvironment, tmp_path: Path, name: str) -> None:
    marker = tmp_path / "marker"
    async with env.worker(handler_of(getattr(children, name), executor="process"), **SETTINGS):
        job_id = await env.submit(name, json.dumps({"marker": str(marker)}))
        begun = await written(marker)
        await env.engine.cancel([job_id], OPERATOR)
        job = await env.end_of(job_id)
        if name == "sleeps":
            for pid in begun.split():
                await gone(int(pid))
    assert job.state is State.CANCELLED
    assert name == "sleeps" or marker.read_text(encoding="ascii") == "told"


async def test_a_child_that_holds_the_gil_keeps_its_lease(env: WorkerEnvironment) -> None:
    async with env.scheduler(), env.worker(handler_of(children.holds_the_gil, executor="process"), **SETTINGS):
        job = await env.end_of(await env.submit("holds_the_gil", '{"seconds": 5}'))
    assert (job.state, job.fence) == (State.COMPLETED, 1)


async def test_a_child_is_replaced_after_so_many_jobs(env: WorkerEnvironment) -> None:
    settings = {**SETTINGS, "concurrency": 1, "child_jobs": 2}
    async with env.worker(handler_of(children.whoami, executor="process"), **settings):
        jobs = await env.ends_of(await env.submit_many(5, "whoami"))
    pids = [json.loads(job.result or "null")[2] for job in jobs]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]


async def test_a_child_that_has_grown_too_large_is_replaced(env: WorkerEnvironment) -> None:
    settings = {**SETTINGS, "concurrency": 1, "child_bytes": 1}
    async with env.worker(handler_of(children.whoami, executor="process"), **settings):
        jobs = await env.ends_of(await env.submit_many(3, "whoami"))
    assert len({json.loads(job.result or "null")[2] for job in jobs}) == 3


async def test_what_a_child_does_not_finish_is_handed_back(env: WorkerEnvironment, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    settings = {**SETTINGS, "drain_timeout": timedelta(seconds=1)}
    async with env.worker(handler_of(children.sleeps, executor="process"), **settings):
        job_id = await env.submit("sleeps", json.dumps({"marker": str(marker)}), max_attempts=1)
        pids = (await written(marker)).split()
    for pid in pids:
        await gone(int(pid))
    job = await env.look(job_id)
    assert (job.state, job.attempts, job.crashes) == (State.PENDING, 0, 0)


async def test_a_large_payload_and_result_fit_through_the_pipes(env: WorkerEnvironment) -> None:
    async with env.worker(handler_of(children.add, executor="process"), **SETTINGS):
        long = "x" * 900_000
        job = await env.end_of(await env.submit("add", json.dumps({"args": [long, "y"]}), max_attempts=1))
    assert job.reason is Reason.PERMANENT  # add wants numbers, and says so


def test_a_function_no_other_process_can_find_is_refused() -> None:
    def local() -> None: ...

    with pytest.raises(InvalidRequest, match="another process"):
        handler_of(local, executor="process")


async def lost(env: WorkerEnvironment, job_id: JobId, times: int) -> None:
    """Have a job's worker die under it, so many times."""
    for number in range(times):
        (job,) = await env.engine.claim(Claim(WorkerId("ben", f"boot-{number}"), 1, types=("whoami",)))
        assert job.id == job_id
        await env.engine.settle([AttemptReport(job.id, job.fence, Lost())])


async def test_a_job_that_may_have_taken_its_worker_down_twice_runs_in_a_process_of_its_own(
    env: WorkerEnvironment,
) -> None:
    """One bad job made every other job beside it dead: three crashes counted for all of them."""
    suspect = await env.submit("whoami")
    await lost(env, suspect, 2)
    async with env.worker(handler_of(children.whoami), **SETTINGS):
        ended, other = await env.end_of(suspect), await env.end_of(await env.submit("whoami"))
    assert json.loads(ended.result or "[]")[2] != os.getpid()
    assert json.loads(other.result or "[]")[2] == os.getpid()


async def test_a_job_on_its_last_attempt_runs_alone_after_one_crash(env: WorkerEnvironment) -> None:
    suspect = await env.submit("whoami", max_attempts=2)
    await lost(env, suspect, 1)
    async with env.worker(handler_of(children.whoami), **SETTINGS):
        ended = await env.end_of(suspect)
    assert json.loads(ended.result or "[]")[2] != os.getpid()


async def test_a_suspect_that_no_other_process_could_find_runs_where_it_always_did(env: WorkerEnvironment) -> None:
    def whoami() -> int:
        return os.getpid()

    suspect = await env.submit("whoami")
    await lost(env, suspect, 2)
    async with env.worker(whoami, **SETTINGS):
        assert (await env.end_of(suspect)).result == str(os.getpid())


class Namesake:
    """Has a method whose name, without its object, names another function."""

    def whoami(self) -> int:
        return os.getpid()


def test_a_handler_whose_name_refers_to_another_function_is_not_isolated() -> None:
    method = handler_of(Namesake().whoami)
    assert isolated(method) is method
    own = Handler("whoami", children.whoami, "thread", decode=lambda _text: ((), {}))
    assert isolated(own) is own
    assert isolated(handler_of(children.whoami)).executor == "process"


async def test_suspects_that_come_in_crowds_take_turns(env: WorkerEnvironment) -> None:
    suspects = [await env.submit("whoami") for _ in range(3 * MOST_ISOLATED)]
    for number in range(2):
        held = await env.engine.claim(Claim(WorkerId("ben", f"boot-{number}"), 100, types=("whoami",)))
        await env.engine.settle([AttemptReport(job.id, job.fence, Lost()) for job in held])
    crowd = SETTINGS | {"concurrency": 50}
    async with env.scheduler(), env.worker(handler_of(children.whoami), **crowd):
        ended = await env.ends_of(suspects)
    assert {job.state for job in ended} == {State.COMPLETED}
    assert os.getpid() not in {json.loads(job.result or "[]")[2] for job in ended}

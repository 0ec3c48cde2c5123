"""Guarded steps: an effect happens once, or its job is parked, wherever its handler runs."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Awaitable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from api.environment import served
from rota import GiveUp, Happened, current
from rota.api import create_app
from rota.client import connect
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.lease import Claim, WorkerId
from rota.core.lifecycle import State
from rota.core.outcome import Lost
from rota.core.retry import Backoff
from rota.core.settlement import Reason
from rota.core.step import DoubtPolicy, Resolution
from rota.ports.caller_tx import CallerTxConfig
from rota.ports.client import Actor, AttemptReport
from rota.runtime.caller_tx import CALLER_TX_FACTORY
from rota.worker import handler_of
from rota.worker.handlers import ExecutorName
from worker import child_handlers as children
from worker.environment import WorkerEnvironment, eventually

SETTINGS: dict[str, Any] = {"lease": timedelta(seconds=15), "beat": timedelta(milliseconds=250)}


class Declined(Exception):
    """The card was declined: nothing was paid."""


class Till:
    """An effect that can be counted."""

    def __init__(self, *faults: BaseException | None) -> None:
        self.taken = 0
        self._faults = list(faults)

    def pay(self) -> dict[str, int]:
        fault = self._faults.pop(0) if self._faults else None
        if isinstance(fault, Declined):
            raise fault
        self.taken += 1
        if fault is not None:
            raise fault
        return {"paid": self.taken}

    async def apay(self) -> dict[str, int]:
        return self.pay()


async def begun_and_lost(env: WorkerEnvironment, job_id: JobId, key: str = "pay") -> None:
    """Leave a job as a worker does that died between the intent and the outcome of a step."""
    (job,) = await env.engine.claim(Claim(WorkerId("ben", "boot"), 1, types=("sells",)))
    assert job.id == job_id
    assert await env.engine.steps.intend(job.id, job.fence, key) is not None
    await env.engine.settle([AttemptReport(job.id, job.fence, Lost())])


async def quick(env: WorkerEnvironment) -> JobId:
    return await env.submit("sells")


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_step_is_performed_once_though_its_job_is_tried_twice(
    env: WorkerEnvironment, *, is_async: bool
) -> None:
    till, results = Till(), []

    def finish(result: dict[str, int]) -> dict[str, int]:
        results.append(result)
        if len(results) == 1:
            raise ValueError("after the step")
        return result

    def sells() -> dict[str, int]:
        return finish(current().step("pay", till.pay))

    async def asells() -> dict[str, int]:
        return finish(await current().astep("pay", till.apay))

    async with env.scheduler(), env.worker(handler_of(asells if is_async else sells, type="sells"), **SETTINGS):
        job = await env.end_of(await quick(env))
    assert (job.state, job.attempts, json.loads(job.result or "")) == (State.COMPLETED, 2, {"paid": 1})
    assert (till.taken, results) == (1, [{"paid": 1}] * 2)


async def test_a_step_in_doubt_parks_its_job_until_a_person_has_spoken(env: WorkerEnvironment) -> None:
    till = Till()

    def sells() -> dict[str, int]:
        return current().step("pay", till.pay)

    job_id = await quick(env)
    await begun_and_lost(env, job_id)
    async with env.scheduler(), env.worker(sells, **SETTINGS):
        parked = await env.end_of(job_id)
        assert (parked.state, parked.reason, till.taken) == (State.DEAD, Reason.OUTCOME_UNKNOWN, 0)
        assert parked.error is not None
        assert "rota jobs resolve" in parked.error.message
        await env.engine.steps.resolve(Resolution(job_id, "pay", '{"paid": 5}'), Actor("olga"))
        await env.engine.retry([job_id], Actor("olga"))
        done = await env.until(job_id, lambda one: one.state is State.COMPLETED)
    assert (json.loads(done.result or ""), till.taken) == ({"paid": 5}, 0)


async def test_a_step_that_a_person_resolved_as_not_happened_is_performed(env: WorkerEnvironment) -> None:
    till = Till()

    def sells() -> dict[str, int]:
        return current().step("pay", till.pay)

    job_id = await quick(env)
    await begun_and_lost(env, job_id)
    async with env.scheduler(), env.worker(sells, **SETTINGS):
        await env.end_of(job_id)
        await env.engine.steps.resolve(Resolution(job_id, "pay", None), Actor("olga"))
        await env.engine.retry([job_id], Actor("olga"))
        await env.until(job_id, lambda one: one.state is State.COMPLETED)
    assert till.taken == 1


@pytest.mark.parametrize(("found", "taken"), [(Happened({"paid": 9}), 0), (None, 1)])
async def test_in_doubt_a_verify_function_decides(env: WorkerEnvironment, found: Happened | None, taken: int) -> None:
    till = Till()

    def sells() -> dict[str, int]:
        return current().step("pay", till.pay, verify=lambda: found)

    job_id = await quick(env)
    await begun_and_lost(env, job_id)
    async with env.scheduler(), env.worker(sells, **SETTINGS):
        job = await env.end_of(job_id)
    assert (job.state, till.taken) == (State.COMPLETED, taken)
    assert json.loads(job.result or "") == (found.result if found is not None else {"paid": 1})


async def test_an_effect_that_bears_it_is_performed_again(env: WorkerEnvironment) -> None:
    till = Till()

    def sells() -> dict[str, int]:
        return current().step("pay", till.pay, doubt="retry")

    job_id = await quick(env)
    await begun_and_lost(env, job_id)
    async with env.scheduler(), env.worker(sells, **SETTINGS):
        assert (await env.end_of(job_id)).state is State.COMPLETED
    assert till.taken == 1


async def test_an_exception_leaves_the_effect_in_doubt(env: WorkerEnvironment) -> None:
    till = Till(TimeoutError("no answer"))

    def sells() -> dict[str, int]:
        return current().step("pay", till.pay)

    async with env.scheduler(), env.worker(sells, **SETTINGS):
        job = await env.end_of(await quick(env))
    assert (job.state, job.reason, job.attempts, till.taken) == (State.DEAD, Reason.OUTCOME_UNKNOWN, 2, 1)


async def test_an_exception_that_says_that_nothing_happened_does_not(env: WorkerEnvironment) -> None:
    till = Till(Declined("no money"))

    def sells() -> dict[str, int]:
        return current().step("pay", till.pay, failed_on=(Declined,))

    async with env.scheduler(), env.worker(sells, **SETTINGS):
        job = await env.end_of(await quick(env))
    assert (job.state, job.attempts, till.taken) == (State.COMPLETED, 2, 1)


async def test_within_one_attempt_a_failed_step_is_in_doubt_too(env: WorkerEnvironment) -> None:
    """A handler that catches the error and tries again must not pay twice."""
    till = Till(TimeoutError("no answer"))

    def sells() -> dict[str, int]:
        try:
            return current().step("pay", till.pay)
        except TimeoutError:
            return current().step("pay", till.pay)

    async with env.worker(sells, **SETTINGS):
        job = await env.end_of(await quick(env))
    assert (job.state, job.reason, till.taken) == (State.DEAD, Reason.OUTCOME_UNKNOWN, 1)


class Forgetful:
    """Loses the first answer to every request after it was written."""

    def __init__(self, env: WorkerEnvironment) -> None:
        self._steps = env.engine.steps
        self._lost: set[tuple[str, str]] = set()

    async def intend(self, job_id: JobId, fence: int, key: str) -> Any:  # noqa: ANN401 - as the keeper answers
        return await self._lose("intend", key, self._steps.intend(job_id, fence, key))

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> Any:  # noqa: ANN401 - as above
        return await self._lose("conclude", key, self._steps.conclude(job_id, fence, key, outcome))

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> Any:  # noqa: ANN401 - as above
        return await self._lose("withdraw", key, self._steps.withdraw(job_id, fence, key))

    async def _lose(self, verb: str, key: str, answer: Awaitable[Any]) -> Any:  # noqa: ANN401 - as above
        reply = await answer
        if (verb, key) not in self._lost:
            self._lost.add((verb, key))
            raise ConnectionResetError("the reply was lost")
        return reply


async def test_a_lost_reply_is_no_doubt(env: WorkerEnvironment) -> None:
    till = Till()

    def sells() -> dict[str, int]:
        return current().step("pay", till.pay)

    async with env.worker(sells, steps=Forgetful(env), **SETTINGS):
        job = await env.end_of(await quick(env))
    assert (job.state, job.attempts, till.taken) == (State.COMPLETED, 1, 1)


async def test_a_handler_whose_job_went_to_someone_else_performs_nothing(env: WorkerEnvironment) -> None:
    till, begun, stolen = Till(), threading.Event(), threading.Event()

    def sells() -> dict[str, int]:
        begun.set()
        stolen.wait(20)
        return current().step("pay", till.pay)

    job_id = await quick(env)
    # Its only slot is taken, so that it does not get the job.
    async with env.worker(sells, concurrency=1, **SETTINGS):
        await eventually(begun.is_set)
        job = await env.look(job_id)
        # As the reaper does, when a worker has been silent for too long.
        await env.engine.settle([AttemptReport(job.id, job.fence, Lost())])
        (taken,) = await env.engine.claim(Claim(WorkerId("ben", "b"), 1, types=("sells",)))
        stolen.set()
    assert (till.taken, await env.engine.steps.all(job_id)) == (0, [])
    assert (await env.look(job_id)) == taken


async def test_a_step_in_a_child_process_is_guarded_too(env: WorkerEnvironment, tmp_path: Path) -> None:
    handler = handler_of(children.pays, type="sells", executor="process")
    marker = tmp_path / "book"
    payload = json.dumps({"marker": str(marker)})
    async with env.scheduler(), env.worker(handler, **SETTINGS):
        job = await env.end_of(await env.submit("sells", payload))
        doubted = await env.submit("sells", payload, run_at=None)
        first = (job.state, json.loads(job.result or ""))
        ended = await env.end_of(doubted)
    assert first == (State.COMPLETED, {"paid": 7})
    assert ended.state is State.COMPLETED
    assert marker.read_text(encoding="ascii") == "paid\npaid\n"


@pytest.mark.parametrize(("executor", "dies"), [("thread", False), ("process", False), ("process", True)])
async def test_a_step_in_a_transaction_happens_once_whatever_comes_after_the_commit(
    env: WorkerEnvironment, executor: ExecutorName, *, dies: bool
) -> None:
    place = str(env.path)
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("CREATE TABLE booking (attempt INTEGER)")
        handler = handler_of(children.books, executor=executor)
        async with (
            env.scheduler(),
            env.worker(handler, caller_tx_config=CallerTxConfig(CALLER_TX_FACTORY, place), **SETTINGS),
        ):
            again = {"max_attempts": 5, "backoff": Backoff(base=timedelta(milliseconds=1))}
            payload = json.dumps({"place": place, "dies": dies})
            job = await env.end_of(await env.submit("books", payload, **again))
        assert (job.state, job.attempts, job.result) == (State.COMPLETED, 2, "1")
        assert connection.execute("SELECT attempt FROM booking").fetchall() == [(1,)]


async def test_a_child_process_parks_a_step_in_doubt(env: WorkerEnvironment, tmp_path: Path) -> None:
    marker = tmp_path / "book"
    job_id = await env.submit("sells", json.dumps({"marker": str(marker)}))
    await begun_and_lost(env, job_id)
    async with env.scheduler(), env.worker(handler_of(children.pays, type="sells", executor="process"), **SETTINGS):
        job = await env.end_of(job_id)
    assert (job.state, job.reason, marker.exists()) == (State.DEAD, Reason.OUTCOME_UNKNOWN, False)


async def test_steps_are_guarded_over_http(env: WorkerEnvironment) -> None:
    till = Till()
    tries = []

    async def sells() -> dict[str, int]:
        paid = await current().astep("pay", till.apay)
        tries.append(paid)
        if len(tries) == 1:
            raise ValueError("after the step")
        return paid

    async with served(create_app(env.engine)) as url:
        client = connect([url])
        async with env.scheduler(), env.worker(sells, source=client, steps=client, **SETTINGS):
            job = await env.end_of(await quick(env))
        lost = await client.intend(job.id, job.fence + 1, "late")
        await client.close()
    assert (job.state, job.attempts, till.taken, lost) == (State.COMPLETED, 2, 1, None)


def test_what_makes_no_sense_is_refused() -> None:
    from rota.worker.steps import policy_of  # noqa: PLC0415 - only here

    with pytest.raises(InvalidRequest, match="belong together"):
        policy_of("pay", DoubtPolicy.VERIFY, None)
    with pytest.raises(InvalidRequest, match="1 to 200 characters"):
        policy_of("", None, None)
    with pytest.raises(InvalidRequest, match="nothing is in doubt"):
        policy_of("pay", DoubtPolicy.RETRY, None, (), object())


async def test_a_handler_may_still_give_up_in_a_step(env: WorkerEnvironment) -> None:
    till = Till(GiveUp("never"))

    def sells() -> dict[str, int]:
        return current().step("pay", till.pay)

    async with env.worker(sells, **SETTINGS):
        job = await env.end_of(await quick(env))
    assert (job.state, job.reason) == (State.DEAD, Reason.PERMANENT)


async def test_steps_side_by_side_in_a_child_process_each_get_their_answer(env: WorkerEnvironment) -> None:
    async with env.worker(handler_of(children.pays_two_at_once, executor="process"), **SETTINGS):
        job = await env.end_of(await env.submit("pays_two_at_once"))
    assert (job.state, json.loads(job.result or "")) == (State.COMPLETED, ["A", "B"])


async def test_a_child_whose_handler_did_not_wait_for_an_answer_goes_on(env: WorkerEnvironment) -> None:
    handlers = (handler_of(children.loses_patience, executor="process"), handler_of(children.add, executor="process"))
    async with env.worker(*handlers, concurrency=1, **SETTINGS):
        first = await env.end_of(await env.submit("loses_patience"))
        second = await env.end_of(await env.submit("add", '{"args": [1, 2]}'))
    assert (first.result, second.result) == ('"went on"', "3")


class Slow:
    """Answers, and only then lets go of the answer."""

    def __init__(self, env: WorkerEnvironment, verb: str) -> None:
        self._steps = env.engine.steps
        self._verb = verb
        self.asked, self.free = asyncio.Event(), asyncio.Event()

    async def intend(self, job_id: JobId, fence: int, key: str) -> Any:  # noqa: ANN401 - as the keeper answers
        return await self._hold("intend", await self._steps.intend(job_id, fence, key))

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> Any:  # noqa: ANN401 - as above
        await self._hold("conclude", None)
        return await self._steps.conclude(job_id, fence, key, outcome)

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> Any:  # noqa: ANN401 - as above
        return await self._steps.withdraw(job_id, fence, key)

    async def _hold(self, verb: str, answer: Any) -> Any:  # noqa: ANN401 - as above
        if verb == self._verb:
            self.asked.set()
            await self.free.wait()
        return answer


async def test_an_answer_that_comes_too_late_performs_nothing(env: WorkerEnvironment) -> None:
    """Its lease ran out meanwhile, and another worker may have performed the effect."""
    till, slow = Till(), Slow(env, "intend")

    def sells() -> dict[str, int]:
        return current().step("pay", till.pay, doubt="retry")

    job_id = await quick(env)
    async with env.worker(sells, steps=slow, **SETTINGS):
        await slow.asked.wait()
        await env.engine.cancel([job_id], Actor("olga"))
        await env.until(job_id, lambda job: job.cancel_requested_at is not None)
        # Told to stop at the next beat, as it is when its lease runs out.
        await asyncio.sleep(3 * SETTINGS["beat"].total_seconds())
        slow.free.set()
        await env.end_of(job_id)
    assert till.taken == 0


async def test_a_cancelled_handler_still_records_its_effect(env: WorkerEnvironment) -> None:
    till, slow = Till(), Slow(env, "conclude")

    async def sells() -> dict[str, int]:
        return await current().astep("pay", till.apay)

    job_id = await quick(env)
    async with env.worker(sells, steps=slow, **SETTINGS) as worker:
        await slow.asked.wait()
        worker.stop()
        worker.stop()
        asyncio.get_running_loop().call_later(0.3, slow.free.set)
    (step,) = await env.engine.steps.all(job_id)
    assert (till.taken, step.outcome) == (1, '{"paid":1}')


async def test_a_refused_step_request_is_not_repeated(env: WorkerEnvironment) -> None:
    class Strict(Forgetful):
        async def intend(self, job_id: JobId, fence: int, key: str) -> Any:  # noqa: ANN401, ARG002 - as above
            raise InvalidRequest("key: will not do", field="key")

    def sells() -> None:
        current().step("pay", Till().pay)

    async with env.worker(sells, steps=Strict(env), **SETTINGS):
        job = await env.end_of(await env.submit("sells", max_attempts=1))
    assert job.error is not None
    assert "will not do" in job.error.message


async def test_that_a_large_effect_happened_is_kept_though_its_result_is_not(env: WorkerEnvironment) -> None:
    def sells() -> str:
        return current().step("pay", lambda: "x" * 600_000)

    async with env.worker(sells, **SETTINGS):
        job = await env.end_of(await quick(env))
    (step,) = await env.engine.steps.all(job.id)
    assert (job.state, job.reason, step.outcome) == (State.DEAD, Reason.PERMANENT, "null")


async def test_a_key_is_not_used_twice_at_once(env: WorkerEnvironment) -> None:
    till = Till()

    async def sells() -> list[str]:
        done = await asyncio.gather(*(current().astep("pay", till.apay) for _ in range(3)), return_exceptions=True)
        return sorted(type(one).__name__ for one in done)

    async with env.worker(sells, **SETTINGS):
        job = await env.end_of(await quick(env))
    assert (json.loads(job.result or ""), till.taken) == (["InvalidRequest", "InvalidRequest", "dict"], 1)


async def test_functions_of_the_wrong_kind_do_no_harm(env: WorkerEnvironment) -> None:
    till = Till()

    async def lenient() -> dict[str, int]:
        return await current().astep("pay", till.pay)  # type: ignore[arg-type]

    def strict() -> object:
        return current().step("pay", till.apay)

    async with env.worker(lenient, strict, **SETTINGS):
        one = await env.end_of(await env.submit("lenient"))
        other = await env.end_of(await env.submit("strict", max_attempts=1))
    assert (json.loads(one.result or ""), till.taken) == ({"paid": 1}, 1)
    assert other.error is not None
    assert "astep" in other.error.message
    assert await env.engine.steps.all(other.id) == []

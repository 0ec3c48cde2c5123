"""Guarded steps of a handler: intent, effect, outcome.

Where each part runs. The effect runs where the handler does: on a thread, on the handler loop, in a child process. The
records are written through the source, on the source loop; `StepChannel.send` carries the request there and returns a
future.

What happens on a crash. Before the intent is written: nothing happened. Between intent and outcome: the next attempt
finds the step in doubt, and its policy decides. After the outcome is written and before the job is settled: the next
attempt takes the outcome instead of performing the effect again. If the answer to an intent is lost and the intent is
sent again, the step is found begun under this attempt's own fence: it is not in doubt, for this attempt has not
performed it yet.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rota.core.errors import InvalidRequest
from rota.core.step import LARGEST_OUTCOME, DoubtPolicy, Step, StepAction, StepKind, advise, check_key
from rota.core.time import from_micros, to_micros
from rota.core.waiting import Wait
from rota.worker.arguments import NotJson, encode_result
from rota.worker.exceptions import Cancelled, ExceptionTypes, OutcomeUnknown, Suspend

if TYPE_CHECKING:
    from rota.worker.transactions import TransactionSteps

R = TypeVar("R")


class StepVerb(StrEnum):
    """Requests about a step."""

    INTEND = "intend"
    CONCLUDE = "conclude"
    WITHDRAW = "withdraw"
    WAIT = "wait"


#: The stored step and whether it is new; None when the job belongs to another worker.
StepAnswer = tuple[Step, bool] | None


class StepChannel(Protocol):
    """Carries requests about steps to the store."""

    def send(
        self, verb: StepVerb, key: str, outcome: str | None = None, wait: Wait | None = None
    ) -> Future[StepAnswer]:
        """Send a request, from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Happened:
    """Returned by a `verify` function for an effect that has happened, with the result of the effect."""

    result: Any = None


Verify = Callable[[], Happened | None]
AsyncVerify = Callable[[], Awaitable[Happened | None]]
#: The effect itself, or its verification: sync or async, as the handler is.
Effect = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class RequiredWrite:
    """A write that is awaited even if the handler is cancelled: the effect was performed, or surely was not."""

    answer: Future[StepAnswer]


PlanItem = Future[StepAnswer] | RequiredWrite | Effect


class WrongStepFunction(TypeError):
    """A step was given an async function in a sync handler; nothing was performed."""


class AttemptSteps:
    """The steps of one attempt."""

    __slots__ = ("_begun", "_channel", "_under_way", "in_transaction")

    def __init__(self, channel: StepChannel, in_transaction: TransactionSteps) -> None:
        self.in_transaction = in_transaction
        self._channel = channel
        self._begun: set[str] = set()
        self._under_way: set[str] = set()

    def perform(
        self, key: str, function: Callable[[], R], doubt: DoubtPolicy, verify: Verify | None, failed_on: ExceptionTypes
    ) -> R:
        """Perform a step on a thread."""
        plan = self._plan(key, function, doubt, verify, failed_on)
        item = next(plan)
        while True:
            try:
                value = _execute(item)
            except BaseException as raised:  # noqa: BLE001 - the plan handles it
                advance = partial(plan.throw, raised)
            else:
                advance = partial(plan.send, value)
            try:
                item = advance()
            except StopIteration as end:
                result: R = end.value
                return result

    async def perform_async(
        self,
        key: str,
        function: Callable[[], Awaitable[R]],
        doubt: DoubtPolicy,
        verify: AsyncVerify | None,
        failed_on: ExceptionTypes,
    ) -> R:
        """Perform a step on an event loop."""
        plan = self._plan(key, function, doubt, verify, failed_on)
        item = next(plan)
        while True:
            try:
                value = await _execute_async(item)
            except BaseException as raised:  # noqa: BLE001 - the plan handles it
                advance = partial(plan.throw, raised)
            else:
                advance = partial(plan.send, value)
            try:
                item = advance()
            except StopIteration as end:
                result: R = end.value
                return result

    def wait(self, wait: Wait) -> Step:
        """Begin a wait on a thread, or come back to it; return its step if it is over, else leave the handler."""
        return self._waited(wait, self.begin_wait(wait))

    async def wait_async(self, wait: Wait) -> Step:
        """Begin a wait on an event loop, as `wait` does."""
        return self._waited(wait, await self.begin_wait_async(wait))

    def begin_wait(self, wait: Wait) -> Step:
        """Begin a wait on a thread, or come back to it, without leaving the handler."""
        return _owned(self._channel.send(StepVerb.WAIT, wait.key, wait=wait).result())[0]

    async def begin_wait_async(self, wait: Wait) -> Step:
        """Begin a wait on an event loop, as `begin_wait` does."""
        return _owned(await asyncio.wrap_future(self._channel.send(StepVerb.WAIT, wait.key, wait=wait)))[0]

    def _waited(self, wait: Wait, step: Step) -> Step:
        if step.is_done:
            return step
        if self._under_way:
            # The handler would be left in the middle of the effect, which would be in doubt when the wait is over.
            effect = min(self._under_way)
            raise InvalidRequest(
                f"step {wait.key!r}: the wait is not over, and step {effect!r} is under way; wait before or after it",
                field="key",
            )
        raise Suspend(wait.key)

    def _plan(
        self, key: str, function: Effect, doubt: DoubtPolicy, verify: Effect | None, failed_on: ExceptionTypes
    ) -> Generator[PlanItem, Any, Any]:
        """Yield what to do next; the caller does it, sync or async, and sends the result back."""
        not_performed: ExceptionTypes = (WrongStepFunction, *failed_on)
        if key in self._under_way:
            raise InvalidRequest(f"step {key!r} is under way already in this attempt; wait for it", field="key")
        self._under_way.add(key)
        try:
            answer = yield self._channel.send(StepVerb.INTEND, key)
            match self._advice(answer, key, doubt):
                case StepAction.REUSE:
                    return step_result(_owned(answer)[0])
                case StepAction.VERIFY:
                    assert verify is not None
                    happened = yield verify
                    if happened is not None:
                        return (yield from self._conclude(key, happened.result))
                case _:
                    pass
            self._begun.add(key)
            try:
                result = yield function
            except not_performed:
                yield RequiredWrite(self._channel.send(StepVerb.WITHDRAW, key))
                self._begun.discard(key)
                raise
            return (yield from self._conclude(key, result))
        finally:
            self._under_way.discard(key)

    def _conclude(self, key: str, result: object) -> Generator[PlanItem, Any, Any]:
        """Record that the effect happened, also if its result is too large to be kept."""
        text = encode_result(result)
        is_too_large = len(text) > LARGEST_OUTCOME
        answer = yield RequiredWrite(self._channel.send(StepVerb.CONCLUDE, key, "null" if is_too_large else text))
        require_small(key, text, "happened")
        return step_result(_owned(answer)[0])

    def _advice(self, answer: StepAnswer, key: str, doubt: DoubtPolicy) -> StepAction:
        step, is_new = _owned(answer)
        is_fresh = is_new or (step.began_under == self.in_transaction.fence and key not in self._begun)
        advice = advise(step, is_new=is_fresh and not step.is_done, doubt=doubt)
        if advice is StepAction.PARK:
            raise in_doubt(step)
        return advice


def call_effect(effect: Callable[[], R]) -> R:
    """Perform an effect on a thread; refuse an async function before it has begun."""
    result = effect()
    if inspect.iscoroutine(result):
        result.close()
        raise WrongStepFunction("step was given an async function; in an async handler, await current().astep(…)")
    return result


def _execute(item: PlanItem) -> Any:  # noqa: ANN401 - whatever it returns
    match item:
        case RequiredWrite(answer):
            return answer.result()
        case Future():
            return item.result()
        case _:
            return call_effect(item)


async def _execute_async(item: PlanItem) -> Any:  # noqa: ANN401 - as above
    match item:
        case RequiredWrite(answer):
            writing = asyncio.wrap_future(answer)
            try:
                return await asyncio.shield(writing)
            except asyncio.CancelledError:
                # Cancelled while recording what happened: finish the write first.
                await asyncio.wait([writing])
                raise
        case Future():
            return await asyncio.wrap_future(item)
        case _:
            result = item()
            return await result if inspect.isawaitable(result) else result


def step_result(step: Step) -> Any:  # noqa: ANN401 - the step's result
    """Return the result of a finished step, as it was stored: every attempt must see the same."""
    return json.loads(step.outcome or "null")


def require_small(key: str, text: str, fate: str) -> None:
    """Refuse a result that is too large to be kept; `fate` says what became of the step."""
    if len(text) > LARGEST_OUTCOME:
        raise NotJson(
            f"step {key!r} {fate}: its result is {len(text):,} characters of JSON, and at most {LARGEST_OUTCOME:,} are"
            " kept; store it elsewhere and return where"
        )


def in_doubt(step: Step) -> OutcomeUnknown:
    """Make the error for a step that was begun and never finished."""
    return OutcomeUnknown(
        f"step {step.key!r} was begun at {step.began_at:%Y-%m-%d %H:%M:%S} UTC and never finished; whether its"
        " effect happened cannot be known: find out, say so (rota jobs resolve), and retry the job"
    )


def policy_of(
    key: str, doubt: DoubtPolicy | str | None, verify: object, failed_on: ExceptionTypes = (), tx: object = None
) -> DoubtPolicy:
    """Check the arguments of a step and return its policy for the case of doubt."""
    check_key(key)
    if tx is not None and (doubt is not None or verify is not None or failed_on):
        message = f"step {key!r}: within a transaction nothing is in doubt; leave out doubt, verify and failed_on"
        raise InvalidRequest(message, field="tx")
    if doubt is not None and doubt not in set(DoubtPolicy):
        raise InvalidRequest(f"doubt: {doubt!r} must be one of {', '.join(DoubtPolicy)}", field="doubt")
    chosen = DoubtPolicy(doubt) if doubt is not None else DoubtPolicy.PARK if verify is None else DoubtPolicy.VERIFY
    if (chosen is DoubtPolicy.VERIFY) != (verify is not None):
        raise InvalidRequest(f"step {key!r}: doubt='verify' and a verify function belong together", field="doubt")
    return chosen


def _owned(answer: StepAnswer) -> tuple[Step, bool]:
    if answer is None:
        raise Cancelled("the job belongs to another worker now")
    return answer


def encode_answer(answer: StepAnswer) -> dict[str, Any]:
    """Encode an answer for a child process."""
    if answer is None:
        return {"step": None}
    step, is_new = answer
    began_at, ended_at = to_micros(step.began_at), None if step.ended_at is None else to_micros(step.ended_at)
    wait = [step.kind.value, None if step.until is None else to_micros(step.until), step.subject]
    known = [step.job_id, step.key, step.began_under, began_at, ended_at, step.outcome, *wait]
    return {"step": known, "is_new": is_new}


def decode_answer(message: dict[str, Any]) -> StepAnswer:
    """Decode an answer in a child process; raise what the worker refused."""
    match message:
        case {"step": [job_id, key, began_under, *times, outcome, kind, until, subject], "is_new": is_new}:
            began, ended, end = (None if one is None else from_micros(one) for one in (*times, until))
            assert began is not None
            return Step(job_id, key, began_under, began, ended, outcome, StepKind(kind), end, subject), is_new
        case {"refused": why}:
            raise InvalidRequest(f"step: {why}", field="step")
        case {"cancelled": _}:
            raise Cancelled
        case _:
            return None

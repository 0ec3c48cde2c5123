"""Guarded steps as a handler asks for them: intent, effect, outcome.

Where each part runs. The effect runs where the handler does: on a thread, on the handlers' loop, in a child process.
What is written down goes through the source, on the source's loop; `StepLine.ask` brings the wish there and gives a
future, whichever way that is.

What happens when something dies. Before the intent is written: nothing happened. Between intent and outcome: the next
attempt finds the step in doubt, and its policy decides. After the outcome is written and before the job is settled:
the next attempt takes the outcome instead of performing the effect again. If the reply to an intent is lost and it is
sent again, the step is found begun under our own fence: that is no doubt, for this attempt has not performed it yet.
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
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from rota.core.errors import InvalidRequest
from rota.core.instant import from_micros, to_micros
from rota.core.step import Advice, Doubt, Step, advise
from rota.worker.calling import NotJson, encode_result
from rota.worker.signals import Cancelled, OutcomeUnknown

if TYPE_CHECKING:
    from rota.worker.within import Within

R = TypeVar("R")
Kinds = tuple[type[BaseException], ...]
LONGEST_KEY: Final = 200
#: As JSON; also what the API takes.
LARGEST_OUTCOME: Final = 500_000


class Act(StrEnum):
    """What is asked about a step."""

    INTEND = "intend"
    CONCLUDE = "conclude"
    WITHDRAW = "withdraw"


#: The step as it stands and whether it is new; None when the job belongs to someone else.
Reply = tuple[Step, bool] | None


class StepLine(Protocol):
    """Brings what is asked about a step to the store."""

    def ask(self, act: Act, key: str, outcome: str | None = None) -> Future[Reply]:
        """Ask, from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Happened:
    """What a `verify` function returns for an effect that has happened: what it yielded."""

    result: Any = None


Verify = Callable[[], Happened | None]
AsyncVerify = Callable[[], Awaitable[Happened | None]]
#: The effect itself, or the look whether it happened: sync or async, as the handler is.
Effect = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Owed:
    """What must be written now that the effect was performed, or surely was not: also by a handler told to stop."""

    answer: Future[Reply]


Wish = Future[Reply] | Owed | Effect


class Misused(TypeError):
    """A step was given a function of the wrong kind, and nothing was performed."""


class Steps:
    """The steps of one attempt."""

    __slots__ = ("_begun", "_line", "_under_way", "within")

    def __init__(self, line: StepLine, within: Within) -> None:
        self.within = within
        self._line = line
        self._begun: set[str] = set()
        self._under_way: set[str] = set()

    def perform(self, key: str, function: Callable[[], R], doubt: Doubt, verify: Verify | None, failed_on: Kinds) -> R:
        """Perform a step on a thread."""
        plan = self._plan(key, function, doubt, verify, failed_on)
        wish = next(plan)
        while True:
            try:
                answer = _done(wish)
            except BaseException as raised:  # noqa: BLE001 - the plan knows what it means
                advance = partial(plan.throw, raised)
            else:
                advance = partial(plan.send, answer)
            try:
                wish = advance()
            except StopIteration as end:
                yielded: R = end.value
                return yielded

    async def perform_async(
        self, key: str, function: Callable[[], Awaitable[R]], doubt: Doubt, verify: AsyncVerify | None, failed_on: Kinds
    ) -> R:
        """Perform a step on an event loop."""
        plan = self._plan(key, function, doubt, verify, failed_on)
        wish = next(plan)
        while True:
            try:
                answer = await _adone(wish)
            except BaseException as raised:  # noqa: BLE001 - the plan knows what it means
                advance = partial(plan.throw, raised)
            else:
                advance = partial(plan.send, answer)
            try:
                wish = advance()
            except StopIteration as end:
                yielded: R = end.value
                return yielded

    def _plan(
        self, key: str, function: Effect, doubt: Doubt, verify: Effect | None, failed_on: Kinds
    ) -> Generator[Wish, Any, Any]:
        """Say what is to be done, one thing after the other; whoever drives the plan does it and tells the outcome."""
        unhappened: Kinds = (Misused, *failed_on)
        if key in self._under_way:
            raise InvalidRequest(f"step {key!r} is under way already in this attempt; wait for it", field="key")
        self._under_way.add(key)
        try:
            reply = yield self._line.ask(Act.INTEND, key)
            match self._advice(reply, key, doubt):
                case Advice.REUSE:
                    return _yielded(reply)
                case Advice.VERIFY:
                    assert verify is not None
                    found = yield verify
                    if found is not None:
                        return (yield from self._concluded(key, found.result))
                case _:
                    pass
            self._begun.add(key)
            try:
                result = yield function
            except unhappened:
                yield Owed(self._line.ask(Act.WITHDRAW, key))
                self._begun.discard(key)
                raise
            return (yield from self._concluded(key, result))
        finally:
            self._under_way.discard(key)

    def _concluded(self, key: str, result: object) -> Generator[Wish, Any, Any]:
        """Write down that the effect happened; too large a result is not kept, but that it happened is."""
        text = encode_result(result)
        is_too_large = len(text) > LARGEST_OUTCOME
        reply = yield Owed(self._line.ask(Act.CONCLUDE, key, "null" if is_too_large else text))
        require_small(key, text, "happened")
        return _yielded(reply)

    def _advice(self, reply: Reply, key: str, doubt: Doubt) -> Advice:
        step, is_new = _ours(reply)
        is_fresh = is_new or (step.began_under == self.within.fence and key not in self._begun)
        advice = advise(step, is_new=is_fresh and not step.is_done, doubt=doubt)
        if advice is Advice.PARK:
            raise in_doubt(step)
        return advice


def called(effect: Callable[[], R]) -> R:
    """Perform an effect on a thread; refuse one that would have to be awaited, before it has begun."""
    result = effect()
    if inspect.iscoroutine(result):
        result.close()
        raise Misused("step was given an async function; in an async handler, await current().astep(…)")
    return result


def _done(wish: Wish) -> Any:  # noqa: ANN401 - whatever it yields
    match wish:
        case Owed(answer):
            return answer.result()
        case Future():
            return wish.result()
        case _:
            return called(wish)


async def _adone(wish: Wish) -> Any:  # noqa: ANN401 - as above
    match wish:
        case Owed(answer):
            writing = asyncio.wrap_future(answer)
            try:
                return await asyncio.shield(writing)
            except asyncio.CancelledError:
                # Told to stop in the middle of writing down what happened: that first.
                await asyncio.wait([writing])
                raise
        case Future():
            return await asyncio.wrap_future(wish)
        case _:
            result = wish()
            return await result if inspect.isawaitable(result) else result


def _yielded(reply: Reply) -> Any:  # noqa: ANN401 - what the step yielded
    return yielded(_ours(reply)[0])


def yielded(step: Step) -> Any:  # noqa: ANN401 - what the step yielded
    """Give what a step that is done yielded."""
    # As it was written, not as it was returned: a later attempt must see the same.
    return json.loads(step.outcome or "null")


def require_small(key: str, text: str, fate: str) -> None:
    """Refuse a result that is too large to be kept, and say what became of the step."""
    if len(text) > LARGEST_OUTCOME:
        raise NotJson(
            f"step {key!r} {fate}: its result is {len(text):,} characters of JSON, and at most {LARGEST_OUTCOME:,} are"
            " kept; store it elsewhere and return where"
        )


def in_doubt(step: Step) -> OutcomeUnknown:
    """Say that nobody can know whether a step happened."""
    return OutcomeUnknown(
        f"step {step.key!r} was begun at {step.began_at:%Y-%m-%d %H:%M:%S} UTC and never finished; whether its"
        " effect happened cannot be known: find out, say so (rota jobs resolve), and retry the job"
    )


def policy_of(key: str, doubt: Doubt | str | None, verify: object, failed_on: Kinds = (), tx: object = None) -> Doubt:
    """Read what is to be done in doubt, and refuse what makes no sense."""
    if not 1 <= len(key) <= LONGEST_KEY:
        raise InvalidRequest(f"step: a key has 1 to {LONGEST_KEY} characters, this one has {len(key)}", field="key")
    if not key.isprintable():
        raise InvalidRequest(f"step: the key {key!a} holds characters that cannot be shown", field="key")
    if tx is not None and (doubt is not None or verify is not None or failed_on):
        message = f"step {key!r}: within a transaction nothing is in doubt; leave out doubt, verify and failed_on"
        raise InvalidRequest(message, field="tx")
    if doubt is not None and doubt not in set(Doubt):
        raise InvalidRequest(f"doubt: {doubt!r} must be one of {', '.join(Doubt)}", field="doubt")
    chosen = Doubt(doubt) if doubt is not None else Doubt.PARK if verify is None else Doubt.VERIFY
    if (chosen is Doubt.VERIFY) != (verify is not None):
        raise InvalidRequest(f"step {key!r}: doubt='verify' and a verify function belong together", field="doubt")
    return chosen


def _ours(reply: Reply) -> tuple[Step, bool]:
    if reply is None:
        raise Cancelled("the job belongs to someone else now")
    return reply


def reply_to(reply: Reply) -> dict[str, Any]:
    """Write an answer for a child process."""
    if reply is None:
        return {"step": None}
    step, is_new = reply
    began_at, ended_at = to_micros(step.began_at), None if step.ended_at is None else to_micros(step.ended_at)
    return {"step": [step.job_id, step.key, step.began_under, began_at, ended_at, step.outcome], "is_new": is_new}


def reply_from(told: dict[str, Any]) -> Reply:
    """Read an answer in a child process."""
    match told:
        case {"step": [job_id, key, began_under, began_at, ended_at, outcome], "is_new": is_new}:
            ended = None if ended_at is None else from_micros(ended_at)
            return Step(job_id, key, began_under, from_micros(began_at), ended, outcome), is_new
        case {"refused": why}:
            raise InvalidRequest(f"step: {why}", field="step")
        case {"cancelled": _}:
            raise Cancelled
        case _:
            return None

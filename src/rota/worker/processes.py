"""Processes: handlers that may block, leak, crash, or have to be killed.

Children are started when they are first needed, up to one for each slot, and run one job at a time. A child is told
which handler to import (by a reference the worker's own registry holds, never by anything in a payload), gets the
payload as it was stored, and answers with an outcome. JSON over pipes; nothing is pickled.

A run begins when its child is ready for it, so a slow import is not the job's time. Past its time, or no longer ours:
the child is killed, with all it started. Cancelled or handed back: it is told, and killed if it does not end within
its grace. If a child dies by itself, its job is lost, with the exit status and the tail of its standard error as last
words; the core decides how often that may happen. A child is replaced after so many jobs, or once it has grown too
large. If the worker dies, its children notice that their orders end, and kill themselves.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import astuple
from datetime import timedelta
from math import inf
from typing import Any

from rota.core.errors import InvalidRequest
from rota.core.instant import to_micros
from rota.core.outcome import Failed, Lost, Outcome, Snoozed, Stopped, Succeeded, Unknown
from rota.core.settlement import JobError
from rota.worker.ferry import Ferry
from rota.worker.gate import Gate
from rota.worker.holding import Holding
from rota.worker.nursery import Child
from rota.worker.options import WorkerOptions
from rota.worker.run import Run
from rota.worker.steps import Act, Reply, reply_to
from rota.worker.verdict import Judge, Stop

_log = logging.getLogger("rota.worker")
_KILLED_AT_ONCE = frozenset({Stop.TIMEOUT, Stop.LAPSED, Stop.LOST})


class Processes:
    """Runs handlers in child processes. Everything here happens on the source's loop."""

    def __init__(
        self,
        gate: Gate,
        holding: Holding,
        options: WorkerOptions,
        ferry: Ferry | None = None,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._ferry = ferry
        self._gate = gate
        self._holding = holding
        self._options = options
        self._limit = options.concurrency
        self._jobs_each = options.child_jobs
        self._bytes_each = options.child_bytes if options.child_bytes is not None else inf
        self._clock = clock
        self._queue: deque[Run] = deque()
        self._idle: list[Child] = []
        self._children: set[Child] = set()
        self._retired: set[Child] = set()

    @property
    def pids(self) -> list[int]:
        """The groups that are to be killed if the worker dies."""
        return [child.pid for child in (*self._children, *self._retired)]

    def put(self, runs: Sequence[Run]) -> None:
        """Take runs on."""
        self._queue.extend(runs)
        self._pump()

    def interrupt(self, run: Run) -> None:
        """Kill the child of a run that must not go on; ask one that may still end well."""
        child = run.place
        if isinstance(child, Child) and child.run is run:
            if run.stop in _KILLED_AT_ONCE:
                child.kill()
            else:
                child.tell({"stop": str(run.stop)})

    def abandon(self, run: Run) -> None:
        """Kill the child of a run that does not stop."""
        child = run.place
        if isinstance(child, Child) and child.run is run:
            child.kill()

    async def close(self) -> None:
        """Kill all children and see them end."""
        children = [*self._children, *self._retired]
        for child in children:
            child.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(2):
                for child in children:
                    await child.ended.wait()

    def _pump(self) -> None:
        """Give waiting runs to idle children, and start children for the rest."""
        while self._queue and self._idle:
            run = self._queue.popleft()
            if self._gate.begin(run):
                self._give(self._idle.pop(), run)
        starting = len(self._children) - len(self._idle) - sum(child.run is not None for child in self._children)
        while len(self._queue) > starting and len(self._children) < self._limit:
            starting += 1
            child = Child(self._heard, self._ended)
            if self._options.logs is not None:
                child.tell({"logs": [*self._options.logs, self._options.name]})
            if self._options.house is not None:
                child.tell({"house": astuple(self._options.house)})
            self._children.add(child)

    def _give(self, child: Child, run: Run) -> None:
        child.run, run.place = run, child
        child.jobs += 1
        job = run.job
        # A span is begun here, and what runs over there only knows the name of its trace.
        self._gate.surround(run, copy_context())
        child.tell(
            {
                "run": {
                    "id": job.id,
                    "type": job.type,
                    "payload": job.payload,
                    "fence": job.fence,
                    "attempts": job.attempts,
                    "max_attempts": job.max_attempts,
                    "run_at": to_micros(job.run_at),
                    "fire_time": None if job.fire_time is None else to_micros(job.fire_time),
                    "seconds": None if run.deadline == inf else run.deadline - self._clock(),
                    "reference": run.handler.reference,
                    "meta": dict(job.meta),
                }
            }
        )

    def _heard(self, child: Child, message: dict[str, Any]) -> None:
        run = child.run
        context = None if run is None else run.context
        if context is not None and ("progress" in message or "log" in message):
            context.retell(message.get("progress"), message.get("log"))
        if "step" in message and run is not None:
            self._ask_about_a_step(child, run, message["step"])
        elif "outcome" in message and run is not None:
            child.run = None
            self._gate.end(run, outcome_from(message["outcome"], run.handler))
            if run.is_alone or child.jobs >= self._jobs_each or message.get("bytes", 0) > self._bytes_each:
                self._children.discard(child)
                self._retired.add(child)
                child.retire()
            else:
                self._idle.append(child)
        elif "ready" in message:
            self._idle.append(child)
        self._pump()

    def _ask_about_a_step(self, child: Child, run: Run, told: dict[str, Any]) -> None:
        number = told["number"]
        if self._ferry is None:
            child.tell({"stepped": {"number": number, "refused": "this worker was not told where steps are kept"}})
            return

        def answer(crossing: asyncio.Task[Reply]) -> None:
            raised = None if crossing.cancelled() else crossing.exception()
            if child.run is not run:
                return
            match raised:
                case InvalidRequest():
                    reply: dict[str, Any] = {"refused": str(raised)}
                case None if not crossing.cancelled():
                    reply = reply_to(crossing.result())
                case _:
                    reply = {"cancelled": True}
            child.tell({"stepped": {"number": number, **reply}})

        act = Act(told["act"])
        self._ferry.start(self._ferry.ask(run, act, told["key"], told["outcome"]), answer)

    def _ended(self, child: Child) -> None:
        has_served = child in self._retired or child.jobs > 0
        self._children.discard(child)
        self._retired.discard(child)
        if child in self._idle:
            self._idle.remove(child)
            has_served = True
        run = child.run
        if run is not None:
            child.run = None
            self._holding.end(run, Lost(child.last_words()) if run.stop is None else run.outcome_stopped())
        elif not has_served:
            self._fail_one(child.last_words())
        self._pump()

    def _fail_one(self, words: JobError) -> None:
        """Fail one run for a child that died before it could do anything, so that this comes to an end."""
        _log.error("a child process could not start: %s\n%s", words.message, words.traceback)
        while self._queue:
            run = self._queue.popleft()
            if self._holding.take(run):
                told = JobError("ProcessNotStarted", words.message, words.traceback)
                self._holding.end(run, Failed(told) if run.stop is None else run.outcome_unbegun())
                return


def outcome_from(told: dict[str, Any], judge: Judge) -> Outcome:
    """Read what a child says about a run. What the worker's registry says about exceptions holds there too, by name."""
    match told:
        case {"result": str(result)}:
            return Succeeded(result)
        case {"unknown": {"kind": kind, "message": message, "traceback": traceback}}:
            return Unknown(JobError(kind, message, traceback))
        case {"snoozed": seconds}:
            return Snoozed(timedelta(seconds=seconds))
        case {
            "failed": {"kind": kind, "message": message, "traceback": traceback, "permanent": permanent},
            "kinds": kinds,
        }:
            is_permanent = permanent or _is_permanent(frozenset(kinds), judge)
            return Failed(JobError(kind, message, traceback), permanent=is_permanent)
        case _:
            return Stopped()


def _is_permanent(kinds: frozenset[str], judge: Judge) -> bool:
    if not kinds.isdisjoint(map(_named, judge.give_up_on)):
        return True
    return _named(Exception) in kinds and kinds.isdisjoint(map(_named, judge.retry_on))


def _named(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def outcome_to(outcome: Outcome, raised: BaseException | None = None) -> dict[str, Any]:
    """Write what a child says about a run, with the names of what was raised."""
    match outcome:
        case Succeeded(result):
            return {"result": result}
        case Unknown(error):
            return {"unknown": {"kind": error.kind, "message": error.message, "traceback": error.traceback}}
        case Snoozed(delay):
            return {"snoozed": delay.total_seconds()}
        case Failed(error, permanent):
            told = {"kind": error.kind, "message": error.message, "traceback": error.traceback}
            kinds = [_named(kind) for kind in type(raised).__mro__]
            return {"failed": {**told, "permanent": permanent}, "kinds": kinds}
        case _:
            return {"stopped": True}

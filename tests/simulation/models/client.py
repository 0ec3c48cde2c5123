"""Clients and operators in small: they submit, submit again when no answer came, cancel, retry, run now, and edit.

A client that got no answer does what every careful client does: with an idempotency key it makes a new request under
the same key; without one it repeats the very same request, id and all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Final

from rota.core import decision
from rota.core.errors import IllegalTransition, InvalidRequest, StoreUnavailable, Unavailable
from rota.core.graph import NewNode, NewWorkflow, NodeParent, WorkflowId, WorkflowPolicy, planned
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import FINISHED, TIMED, State
from rota.core.schedule import Schedule
from rota.core.submission import Dependency, IdempotencyKey, Need, NewJob, Template, request_hash
from rota.core.waiting import DEFAULT_KEEP, Emission, signal_name
from rota.ports.client import Actor, Control
from rota.ports.store import Inserted, JobQuery, Receipt
from simulation.loops.view import engine_on
from simulation.models.stage import Stage

_ROUNDS: Final = 5
OPERATOR: Final = Actor("operator", "simulation")


@dataclass(frozen=True, slots=True)
class Submission:
    """One job that a client will hand in; `after` names earlier submissions by number."""

    number: int
    at: float
    template: Template
    key: str | None = None
    #: Two submissions with one key are the same request if their bodies are.
    body: str = ""
    keep: timedelta = timedelta(days=1)
    after: tuple[tuple[int, Need], ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """One workflow that a client will submit: for each node its job, and the nodes it comes after."""

    number: int
    at: float
    policy: WorkflowPolicy
    nodes: tuple[tuple[Template, tuple[tuple[int, Need], ...]], ...]


class Wish(StrEnum):
    """What an operator may want."""

    CANCEL = "cancel"
    RETRY = "retry"
    RUN_NOW = "run_now"
    EDIT = "edit"
    CANCEL_WORKFLOW = "cancel_workflow"
    RETRY_WORKFLOW = "retry_workflow"
    RETRY_NODE = "retry_node"
    SKIP_NODE = "skip_node"
    EMIT = "emit"
    SIGNAL = "signal"


@dataclass(frozen=True, slots=True)
class Act:
    """One thing an operator does; `number` is the submission or the workflow it is about, if it is about one.

    `detail` is the name of a node or of an event, and `keep` is for how long an event counts.
    """

    at: float
    wish: Wish
    number: int = 0
    detail: str = ""
    keep: timedelta = DEFAULT_KEEP


class Notebook(dict[int, JobId]):
    """The accepted jobs by number of submission, and workflows; kept on paper, so that it outlives every process."""

    def __init__(self) -> None:
        super().__init__()
        self.workflows: dict[int, WorkflowId] = {}


class ClientModel:
    """One client process, with the part of the world's submissions and acts that falls to it."""

    def __init__(
        self,
        stage: Stage,
        notebook: Notebook,
        submissions: Sequence[Submission],
        acts: Sequence[Act],
        graphs: Sequence[Graph],
        schedules: Sequence[Schedule],
    ) -> None:
        self._stage = stage
        self._notebook = notebook
        self._submissions = submissions
        self._acts = acts
        self._graphs = graphs
        self._schedules = schedules

    async def run(self) -> None:
        """Do what falls to this client. After a restart, what is past is past."""
        await self._introduce()
        started_at = self._stage.now()
        agenda: list[tuple[float, int, Callable[[], Awaitable[None]]]] = [
            (one.at, position, self._submitting(one)) for position, one in enumerate(self._submissions)
        ]
        agenda += [(one.at, -position - 1, self._acting(one)) for position, one in enumerate(self._acts)]
        agenda += [(one.at, -one.number - 1_000, partial(self._submit_graph, one)) for one in self._graphs]
        for at, _, do in sorted(agenda, key=lambda item: item[:2]):
            if at >= started_at or at < 1:
                await asyncio.sleep(max(at - self._stage.now(), 0))
                # At once and side by side: a client that waits for an answer still serves its other callers.
                asyncio.create_task(self._attend(do))  # noqa: RUF006 - the process keeps its tasks
        await self._stage.host.stopping.wait()

    async def _attend(self, do: Callable[[], Awaitable[None]]) -> None:
        """Do something; if the store cannot be reached, leave it at that."""
        self._stage.host.busy += 1
        try:
            await do()
        except StoreUnavailable:
            pass
        finally:
            self._stage.host.busy -= 1

    # Submitting

    async def _introduce(self) -> None:
        for schedule in self._schedules:
            await self._stage.insist(partial(self._put, schedule), tries=8)

    async def _put(self, schedule: Schedule) -> None:
        await self._stage.store.put_schedules([schedule])

    def _submitting(self, submission: Submission) -> Callable[[], Awaitable[None]]:
        async def submit() -> None:
            await self._stage.reach("client.submitting")
            job = self._new_job(submission)
            for attempt in range(_ROUNDS):
                try:
                    (answer,) = await self._insert(job)
                except StoreUnavailable:
                    await asyncio.sleep(self._stage.rng.random() * 2**attempt)
                    if submission.key is not None:
                        job = replace(job, id=self._stage.fresh_id())
                    continue
                if answer.receipt is not Receipt.KEY_REUSED:
                    self._stage.history.note("accepted", host=self._stage.host.name, job=answer.job_id)
                await self._stage.reach("client.submitted")
                if answer.receipt is not Receipt.KEY_REUSED:
                    self._notebook[submission.number] = answer.job_id
                return

        return submit

    async def _insert(self, job: NewJob) -> Sequence[Inserted]:
        return await self._stage.store.insert([job])

    def _new_job(self, submission: Submission) -> NewJob:
        after = tuple(
            Dependency(self._notebook[number], need) for number, need in submission.after if number in self._notebook
        )
        job = submission.template.make(self._stage.fresh_id(), self._stage.host.clock(), after=after)
        # A process that was restarted knows nothing of what it handed in before: that is another submission.
        job = replace(job, tags=(f"submission-{submission.number}/{self._stage.host.boot}",))
        if submission.key is None:
            return job
        key = IdempotencyKey(submission.key, request_hash(submission.body.encode()), "client", submission.keep)
        return replace(job, idempotency=key)

    # Operating

    def _acting(self, act: Act) -> Callable[[], Awaitable[None]]:
        async def operate() -> None:
            match act.wish:
                case Wish.CANCEL:
                    if act.number in self._notebook:
                        await self._cancel(self._notebook[act.number])
                case Wish.RETRY:
                    await self._move(act.wish, (State.DEAD, State.CANCELLED))
                case Wish.RUN_NOW:
                    await self._move(act.wish, tuple(sorted(TIMED)))
                case Wish.EDIT:
                    await self._edit()
                case Wish.EMIT:
                    await self._emit(act.detail, act)
                case Wish.SIGNAL:
                    await self._signal(act)
                case _:
                    await self._act_on_workflow(act)

        return operate

    # Workflows and events: in every cast through the verbs of a client, on the engine or over HTTP

    def _control(self) -> Control:
        return engine_on(self._stage)

    async def _submit_graph(self, graph: Graph) -> None:
        await self._stage.reach("client.submitting")
        workflow = self._new_workflow(graph)
        control = self._control()
        for attempt in range(_ROUNDS):
            try:
                receipt = await control.submit_workflow(workflow)
            except Unavailable:
                await asyncio.sleep(self._stage.rng.random() * 2**attempt)
                continue
            self._notebook.workflows[graph.number] = receipt.workflow_id
            self._stage.history.note("workflow_accepted", host=self._stage.host.name, workflow=receipt.workflow_id)
            await self._stage.reach("client.submitted")
            return

    def _new_workflow(self, graph: Graph) -> NewWorkflow:
        host = self._stage.host
        nodes = []
        for place, (template, parents) in enumerate(graph.nodes):
            job = template.make(self._stage.fresh_id(), host.clock())
            job = replace(job, tags=(f"workflow-{graph.number}/{host.boot}/{place}",))
            nodes.append(NewNode(f"node-{place}", job, tuple(NodeParent(on, need) for on, need in parents)))
        return planned(WorkflowId(self._stage.fresh_id()), f"workflow-{graph.number}", nodes, graph.policy)

    async def _act_on_workflow(self, act: Act) -> None:
        workflow_id = self._notebook.workflows.get(act.number)
        if workflow_id is None:
            return
        note, host = self._stage.history.note, self._stage.host.name
        control = self._control()
        since = round(self._stage.now() * 1e6)
        await self._stage.reach("client.cancelling")
        try:
            match act.wish:
                case Wish.CANCEL_WORKFLOW:
                    await control.cancel_workflow(workflow_id, OPERATOR)
                    note("workflow_cancelled", host=host, workflow=workflow_id, since=since)
                case Wish.RETRY_WORKFLOW:
                    await control.retry_workflow(workflow_id, OPERATOR)
                case Wish.RETRY_NODE:
                    await control.retry_workflow(workflow_id, OPERATOR, node=act.detail)
                case Wish.SKIP_NODE:
                    await control.skip_node(workflow_id, act.detail, OPERATOR)
        except (InvalidRequest, Unavailable):
            return  # refused, or no answer: this operator leaves it at that

    async def _signal(self, act: Act) -> None:
        job_id = self._notebook.get(act.number)
        if job_id is not None:
            await self._emit(signal_name(job_id, ""), act)

    async def _emit(self, name: str, act: Act) -> None:
        emission = Emission(name, f'"{act.detail}/{act.at:.3f}"', act.keep)
        control = self._control()
        for attempt in range(_ROUNDS):
            try:
                await control.emit(emission, OPERATOR)
            except Unavailable:
                await asyncio.sleep(self._stage.rng.random() * 2**attempt)
                continue
            return

    async def _cancel(self, job_id: JobId) -> None:
        """Cancel a job, or ask it to stop if it runs; look again when it has moved meanwhile."""
        store = self._stage.store
        entry = LedgerEntry("operator", "job.cancel", to_text(job_id))
        for _ in range(_ROUNDS):
            found = await store.get([job_id])
            if not found or found[0].state in FINISHED:
                return
            await self._stage.reach("client.cancelling")
            await self._stage.dawdle()
            settlement = decision.cancel(found[0])
            if settlement is None:
                done = await store.ask_cancel([(job_id, found[0].fence)], entry=entry)
            else:
                done = await store.settle([settlement], entry=entry)
            if done:
                return

    async def _move(self, wish: Wish, states: tuple[State, ...]) -> None:
        """Move one job that is in one of `states`, whichever the rng pick."""
        found = await self._stage.store.find(JobQuery(states=states, limit=20))
        if found:
            await self._decree(wish, self._stage.rng.choice(found))

    async def _decree(self, wish: Wish, job: Job) -> None:
        decide = decision.retry if wish is Wish.RETRY else decision.run_now
        now = await self._stage.store_time()
        try:
            settlement = decide(job, now)
        except IllegalTransition:
            return
        await self._stage.store.settle([settlement], entry=LedgerEntry("operator", f"job.{wish}", to_text(job.id)))

    async def _edit(self) -> None:
        """Change a schedule's template, by reading it and writing it back."""
        found = await self._stage.store.schedules()
        if found:
            schedule = self._stage.rng.choice(found)
            template = replace(schedule.template, priority=self._stage.rng.randint(1, 10))
            await self._stage.store.put_schedules([replace(schedule, template=template)])

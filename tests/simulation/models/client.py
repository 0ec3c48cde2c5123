"""Model of clients and operators: they submit, repeat what got no answer, cancel, retry, run now, edit, emit.

A client that got no answer repeats the request: with an idempotency key it makes a new request under
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
from simulation.loops.store_view import engine_on
from simulation.models.environment import Environment

_ROUNDS: Final = 5
OPERATOR: Final = Actor("operator", "simulation")


@dataclass(frozen=True, slots=True)
class Submission:
    """One job that a client will submit; `after` names earlier submissions by number."""

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


class ActionKind(StrEnum):
    """The kinds of operations."""

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
class Action:
    """One operation of an operator; `number` is the submission or the workflow it is about, if it is about one.

    `detail` is the name of a node or of an event, and `keep` is for how long an event counts.
    """

    at: float
    kind: ActionKind
    number: int = 0
    detail: str = ""
    keep: timedelta = DEFAULT_KEEP


class AcceptedIds(dict[int, JobId]):
    """The accepted jobs by number of submission, and workflows; kept outside of the processes."""

    def __init__(self) -> None:
        super().__init__()
        self.workflows: dict[int, WorkflowId] = {}


class ClientModel:
    """One client process, with its part of the world's submissions and operations."""

    def __init__(
        self,
        environment: Environment,
        accepted_ids: AcceptedIds,
        submissions: Sequence[Submission],
        acts: Sequence[Action],
        graphs: Sequence[Graph],
        schedules: Sequence[Schedule],
    ) -> None:
        self._environment = environment
        self._accepted_ids = accepted_ids
        self._submissions = submissions
        self._actions = acts
        self._graphs = graphs
        self._schedules = schedules

    async def run(self) -> None:
        """Do what this client has to do. After a restart, it does only what is still to come."""
        await self._put_schedules()
        started_at = self._environment.now()
        agenda: list[tuple[float, int, Callable[[], Awaitable[None]]]] = [
            (one.at, position, self._submitting(one)) for position, one in enumerate(self._submissions)
        ]
        agenda += [(one.at, -position - 1, self._acting(one)) for position, one in enumerate(self._actions)]
        agenda += [(one.at, -one.number - 1_000, partial(self._submit_graph, one)) for one in self._graphs]
        for at, _, do in sorted(agenda, key=lambda item: item[:2]):
            if at >= started_at or at < 1:
                await asyncio.sleep(max(at - self._environment.now(), 0))
                # Concurrently: a client that waits for an answer goes on with its other requests.
                asyncio.create_task(self._attend(do))  # noqa: RUF006 - the process keeps its tasks
        await self._environment.host.stopping.wait()

    async def _attend(self, do: Callable[[], Awaitable[None]]) -> None:
        """Do something; if the store does not answer, give it up."""
        self._environment.host.busy += 1
        try:
            await do()
        except StoreUnavailable:
            pass
        finally:
            self._environment.host.busy -= 1

    # Submitting

    async def _put_schedules(self) -> None:
        for schedule in self._schedules:
            await self._environment.call_repeatedly(partial(self._put, schedule), tries=8)

    async def _put(self, schedule: Schedule) -> None:
        await self._environment.store.put_schedules([schedule])

    def _submitting(self, submission: Submission) -> Callable[[], Awaitable[None]]:
        async def submit() -> None:
            await self._environment.failpoint("client.submitting")
            job = self._new_job(submission)
            for attempt in range(_ROUNDS):
                try:
                    (answer,) = await self._insert(job)
                except StoreUnavailable:
                    await asyncio.sleep(self._environment.rng.random() * 2**attempt)
                    if submission.key is not None:
                        job = replace(job, id=self._environment.fresh_id())
                    continue
                if answer.receipt is not Receipt.KEY_REUSED:
                    self._environment.history.note("accepted", host=self._environment.host.name, job=answer.job_id)
                await self._environment.failpoint("client.submitted")
                if answer.receipt is not Receipt.KEY_REUSED:
                    self._accepted_ids[submission.number] = answer.job_id
                return

        return submit

    async def _insert(self, job: NewJob) -> Sequence[Inserted]:
        return await self._environment.store.insert([job])

    def _new_job(self, submission: Submission) -> NewJob:
        after = tuple(
            Dependency(self._accepted_ids[number], need)
            for number, need in submission.after
            if number in self._accepted_ids
        )
        job = submission.template.make(self._environment.fresh_id(), self._environment.host.clock(), after=after)
        # A restarted process knows nothing of its earlier submissions: this is another one.
        job = replace(job, tags=(f"submission-{submission.number}/{self._environment.host.boot}",))
        if submission.key is None:
            return job
        key = IdempotencyKey(submission.key, request_hash(submission.body.encode()), "client", submission.keep)
        return replace(job, idempotency=key)

    # Operating

    def _acting(self, act: Action) -> Callable[[], Awaitable[None]]:
        async def operate() -> None:
            match act.kind:
                case ActionKind.CANCEL:
                    if act.number in self._accepted_ids:
                        await self._cancel(self._accepted_ids[act.number])
                case ActionKind.RETRY:
                    await self._move(act.kind, (State.DEAD, State.CANCELLED))
                case ActionKind.RUN_NOW:
                    await self._move(act.kind, tuple(sorted(TIMED)))
                case ActionKind.EDIT:
                    await self._edit()
                case ActionKind.EMIT:
                    await self._emit(act.detail, act)
                case ActionKind.SIGNAL:
                    await self._signal(act)
                case _:
                    await self._act_on_workflow(act)

        return operate

    # Workflows and events: in every variant through the verbs of a client, on the engine or over HTTP

    def _control(self) -> Control:
        return engine_on(self._environment)

    async def _submit_graph(self, graph: Graph) -> None:
        await self._environment.failpoint("client.submitting")
        workflow = self._new_workflow(graph)
        control = self._control()
        for attempt in range(_ROUNDS):
            try:
                receipt = await control.submit_workflow(workflow)
            except Unavailable:
                await asyncio.sleep(self._environment.rng.random() * 2**attempt)
                continue
            self._accepted_ids.workflows[graph.number] = receipt.workflow_id
            self._environment.history.note(
                "workflow_accepted", host=self._environment.host.name, workflow=receipt.workflow_id
            )
            await self._environment.failpoint("client.submitted")
            return

    def _new_workflow(self, graph: Graph) -> NewWorkflow:
        host = self._environment.host
        nodes = []
        for place, (template, parents) in enumerate(graph.nodes):
            job = template.make(self._environment.fresh_id(), host.clock())
            job = replace(job, tags=(f"workflow-{graph.number}/{host.boot}/{place}",))
            nodes.append(NewNode(f"node-{place}", job, tuple(NodeParent(on, need) for on, need in parents)))
        return planned(WorkflowId(self._environment.fresh_id()), f"workflow-{graph.number}", nodes, graph.policy)

    async def _act_on_workflow(self, act: Action) -> None:
        workflow_id = self._accepted_ids.workflows.get(act.number)
        if workflow_id is None:
            return
        note, host = self._environment.history.note, self._environment.host.name
        control = self._control()
        since = round(self._environment.now() * 1e6)
        await self._environment.failpoint("client.cancelling")
        try:
            match act.kind:
                case ActionKind.CANCEL_WORKFLOW:
                    await control.cancel_workflow(workflow_id, OPERATOR)
                    note("workflow_cancelled", host=host, workflow=workflow_id, since=since)
                case ActionKind.RETRY_WORKFLOW:
                    await control.retry_workflow(workflow_id, OPERATOR)
                case ActionKind.RETRY_NODE:
                    await control.retry_workflow(workflow_id, OPERATOR, node=act.detail)
                case ActionKind.SKIP_NODE:
                    await control.skip_node(workflow_id, act.detail, OPERATOR)
        except (InvalidRequest, Unavailable):
            return  # refused, or no answer: the operation is given up

    async def _signal(self, act: Action) -> None:
        job_id = self._accepted_ids.get(act.number)
        if job_id is not None:
            await self._emit(signal_name(job_id, ""), act)

    async def _emit(self, name: str, act: Action) -> None:
        emission = Emission(name, f'"{act.detail}/{act.at:.3f}"', act.keep)
        control = self._control()
        for attempt in range(_ROUNDS):
            try:
                await control.emit(emission, OPERATOR)
            except Unavailable:
                await asyncio.sleep(self._environment.rng.random() * 2**attempt)
                continue
            return

    async def _cancel(self, job_id: JobId) -> None:
        """Cancel a job, or ask it to stop if it runs; look again when it has moved meanwhile."""
        store = self._environment.store
        entry = LedgerEntry("operator", "job.cancel", to_text(job_id))
        for _ in range(_ROUNDS):
            found = await store.get([job_id])
            if not found or found[0].state in FINISHED:
                return
            await self._environment.failpoint("client.cancelling")
            await self._environment.delay_sometimes()
            settlement = decision.cancel(found[0])
            if settlement is None:
                done = await store.ask_cancel([(job_id, found[0].fence)], entry=entry)
            else:
                done = await store.settle([settlement], entry=entry)
            if done:
                return

    async def _move(self, kind: ActionKind, states: tuple[State, ...]) -> None:
        """Change one job that is in one of `states`, chosen at random."""
        found = await self._environment.store.find(JobQuery(states=states, limit=20))
        if found:
            await self._settle_job(kind, self._environment.rng.choice(found))

    async def _settle_job(self, kind: ActionKind, job: Job) -> None:
        decide = decision.retry if kind is ActionKind.RETRY else decision.run_now
        now = await self._environment.store_time()
        try:
            settlement = decide(job, now)
        except IllegalTransition:
            return
        await self._environment.store.settle(
            [settlement], entry=LedgerEntry("operator", f"job.{kind}", to_text(job.id))
        )

    async def _edit(self) -> None:
        """Change a schedule's template, by reading it and writing it back."""
        found = await self._environment.store.schedules()
        if found:
            schedule = self._environment.rng.choice(found)
            template = replace(schedule.template, priority=self._environment.rng.randint(1, 10))
            await self._environment.store.put_schedules([replace(schedule, template=template)])

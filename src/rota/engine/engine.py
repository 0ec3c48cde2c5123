"""The engine: all verbs over one store, and `WorkSource` and `Control` in process."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any

from rota.core.graph import MOST_NODES, NewWorkflow, Node, StoredWorkflow, WorkflowId
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.submission import NewJob
from rota.core.waiting import Emission, Emitted
from rota.engine.breakers import CircuitBreakers
from rota.engine.dead_letters import DeadLetters
from rota.engine.deps import EngineDeps
from rota.engine.dispatch import Dispatch
from rota.engine.events import Events
from rota.engine.explain import Explain
from rota.engine.histogram import JobHistogram
from rota.engine.ids import IdMaker
from rota.engine.inputs import Inputs
from rota.engine.jobs import Jobs
from rota.engine.leases import Leases
from rota.engine.limits import JobLimits
from rota.engine.namespaces import Namespaces
from rota.engine.operations import Operations
from rota.engine.queues import Backlogs, Queues
from rota.engine.relations import JobRelations
from rota.engine.saved_views import SavedViews
from rota.engine.schedules import Schedules
from rota.engine.search import JobSearch
from rota.engine.steps import JobSteps
from rota.engine.store_clock import StoreClock, steady_clock
from rota.engine.tokens import Tokens
from rota.engine.upkeep import Upkeep
from rota.engine.users import Users
from rota.engine.waiting_limit import WaitingLimit
from rota.engine.webhook_events import WebhookEvents
from rota.engine.webhooks import Webhooks
from rota.engine.workers import WorkerControl
from rota.engine.workflows import Workflows
from rota.ports.broker import Broker
from rota.ports.client import ActionResult, Actor, AttemptReport, NodeResult, WorkflowReceipt
from rota.ports.clock import Clock, Rng, wall_clock
from rota.ports.store import Census, Inserted, JobQuery, Store
from rota.telemetry import Telemetry


class Engine:
    """Implements `WorkSource` and `Control` in process; the families of verbs are its attributes."""

    def __init__(
        self,
        store: Store,
        broker: Broker,
        *,
        telemetry: Telemetry | None = None,
        clock: Clock = wall_clock,
        rng: Rng = random.random,
        steady: Callable[[], float] = steady_clock,
        queue_bound: int | None = None,
        namespace: str = "",
    ) -> None:
        self.telemetry = telemetry or Telemetry()
        self.clock = clock
        self.store = store
        #: Empty for the default one.
        self.namespace = namespace
        self.broker = broker
        self.fresh_id = IdMaker(clock, rng)
        self.store_clock = StoreClock(steady)
        self.webhook_events = WebhookEvents(store, self.fresh_id, clock)
        self.waiting_limit = WaitingLimit(store)
        deps = EngineDeps(
            store,
            broker,
            self.telemetry,
            clock,
            rng,
            self.fresh_id,
            self.store_clock,
            self.webhook_events,
            self.waiting_limit,
            queue_bound,
            namespace,
            steady,
        )
        self.leases = Leases(deps)
        self.jobs = Jobs(deps)
        self.dead_letters = DeadLetters(deps)
        self.backlogs = Backlogs(deps)
        self.schedules = Schedules(deps, self.jobs, self.backlogs)
        self.queues = Queues(deps)
        self.limits = JobLimits(deps)
        self.breakers = CircuitBreakers(deps)
        self.steps = JobSteps(deps)
        self.inputs = Inputs(deps)
        self.events = Events(deps)
        self.upkeep = Upkeep(deps, self.leases)
        self.dispatch = Dispatch(deps)
        self.explain = Explain(deps, self.backlogs)
        self.search = JobSearch(deps)
        self.histogram = JobHistogram(deps)
        self.tokens = Tokens(deps)
        self.workers = WorkerControl(deps)
        self.users = Users(deps)
        self.webhooks = Webhooks(deps, self.jobs)
        self.namespaces = Namespaces(deps)
        self.saved_views = SavedViews(deps)
        self.operations = Operations(deps, self.jobs, self.search)
        self.relations = JobRelations(deps, self.jobs)
        self.workflows = Workflows(deps, self.jobs, self.backlogs)

    # WorkSource

    # Not async: a coroutine that only awaits another one costs each call a little.

    def claim(
        self, claim: Claim, *, wait: timedelta = timedelta(0), looks_again: bool = False
    ) -> Coroutine[Any, Any, Sequence[Job]]:
        return self.leases.claim(claim, wait=wait, looks_again=looks_again)

    def renew(self, renewals: Sequence[Renewal]) -> Coroutine[Any, Any, Sequence[Renewed]]:
        return self.leases.renew(renewals)

    def settle(self, reports: Sequence[AttemptReport]) -> Coroutine[Any, Any, Sequence[JobId]]:
        return self.leases.settle(reports)

    # Control

    def submit(self, jobs: Sequence[NewJob]) -> Coroutine[Any, Any, Sequence[Inserted]]:
        # Not async, as `claim`.
        return self.jobs.submit(jobs)

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        return await self.jobs.get(ids)

    async def find(self, query: JobQuery) -> Sequence[Job]:
        return await self.jobs.find(query)

    async def wait(self, job_id: JobId, at_most: timedelta) -> Job:
        return await self.jobs.wait(job_id, at_most)

    async def cancel(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
        return await self.jobs.cancel(ids, by)

    async def retry(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
        return await self.jobs.retry(ids, by)

    async def emit(self, emission: Emission, by: Actor) -> Emitted:
        return await self.events.emit(emission, by)

    async def census(self) -> Census:
        return await self.jobs.census()

    async def submit_workflow(self, workflow: NewWorkflow) -> WorkflowReceipt:
        return await self.workflows.submit(workflow)

    async def workflow(self, workflow_id: WorkflowId) -> StoredWorkflow:
        return await self.workflows.one(workflow_id)

    async def workflow_nodes(self, workflow_id: WorkflowId) -> Sequence[Node]:
        return await self.workflows.nodes(workflow_id)

    async def workflow_results(self, workflow_id: WorkflowId) -> Sequence[NodeResult]:
        return await self.workflows.results(workflow_id, 0, MOST_NODES)

    async def cancel_workflow(self, workflow_id: WorkflowId, by: Actor) -> StoredWorkflow:
        return await self.workflows.cancel(workflow_id, by)

    async def retry_workflow(self, workflow_id: WorkflowId, by: Actor, *, node: str | None = None) -> StoredWorkflow:
        return await self.workflows.retry(workflow_id, by, node=node)

    async def skip_node(self, workflow_id: WorkflowId, node: str, by: Actor) -> StoredWorkflow:
        return await self.workflows.skip(workflow_id, node, by)

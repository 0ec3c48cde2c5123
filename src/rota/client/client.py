"""HTTP client of the API: `WorkSource`, `Control` and `StepKeeper` over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from rota.client.transport import Refused, Transport
from rota.core.access import Action
from rota.core.cluster import Lock, Member
from rota.core.errors import InvalidRequest
from rota.core.graph import NewWorkflow, Node, StoredWorkflow, WorkflowId
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.lifecycle import FINISHED, State
from rota.core.redaction import REDACTED
from rota.core.step import Step
from rota.core.submission import IdempotencyKey, NewJob
from rota.core.waiting import Emission, Emitted, Wait, check_emission
from rota.core.worker_orders import WorkerOrders
from rota.ports.client import ActionResult, Actor, AttemptReport, Deed, NodeResult, WorkflowReceipt
from rota.ports.clock import Clock, wall_clock
from rota.ports.store import Census, Inserted, JobQuery
from rota.tls import NO_FILES, ClientFiles
from rota.wire.access import AccessForm
from rota.wire.cluster import HeartbeatRequest, LeaveRequest, heartbeat_form
from rota.wire.events import EmitReply, emit_form, emitted_of
from rota.wire.jobs import BatchReply, BatchRequest, JobForm, JobPage, ResultForm, inserted_of, job_of
from rota.wire.leases import (
    ClaimReply,
    InputReply,
    InputRequest,
    RenewReply,
    RenewRequest,
    SettleReply,
    SettleRequest,
    WatchReply,
    WatchRequest,
    claim_form,
    renewal_form,
    renewed_of,
    report_form,
)
from rota.wire.locks import AcquireReply, AcquireRequest, ReleaseReply, ReleaseRequest, lock_of
from rota.wire.scalars import job_id_of
from rota.wire.steps import StepReply, StepRequest, step_of, wait_form
from rota.wire.submission import submission_of
from rota.wire.system import Stats, census_of
from rota.wire.types import TypesRegistration
from rota.wire.workers import HeartbeatReply, orders_in
from rota.wire.workflows import (
    ResultPage,
    RetryNodeRequest,
    SkipNodeRequest,
    WorkflowDetail,
    WorkflowForm,
    nodes_of,
    result_of,
    workflow_of,
    workflow_request,
)

T = TypeVar("T")
#: A lease, by its job and its fence.
LeaseKey = tuple[JobId, int]
#: The largest page of jobs that the server returns.
LARGEST_PAGE: Final = 500
#: Limits of one request to the server.
LARGEST_BATCH: Final = 1_000
LARGEST_LANES: Final = 5_000
LARGEST_BODY: Final = 1_000_000
#: More leases than a worker can hold.
MOST_LEASE_TOKENS: Final = 100_000
MOST_NAMES: Final = 9_000
#: The longest wait of one request: during a wait, a half-open connection cannot be distinguished from an idle one.
LONGEST_WAIT: Final = timedelta(seconds=5)
#: How long the response to a renewal may take: if it is lost, there is time to repeat it before the lease lapses.
RENEW_SECONDS: Final = 4.0
#: The same for graphs, their results and what a job takes from the jobs before it: up to 10,000 jobs in one request.
GRAPH_SECONDS: Final = 60.0
#: A result that the token may not see, as the API shows it.
_HIDDEN: Final = f'"{REDACTED}"'


def connect(urls: Sequence[str], *, token: str = "", tls: ClientFiles = NO_FILES, namespace: str = "") -> Client:
    """Make a client for one or several addresses of the same deployment."""
    return Client(Transport(urls, token=token, tls=tls, namespace=namespace))


@asynccontextmanager
async def source_of(argument: Any) -> AsyncIterator[Client]:  # noqa: ANN401 - JSON
    """Make a client from JSON: urls, token, tls and namespace, as a worker's lease-keeper process gets them."""
    tls, namespace = ClientFiles(*argument["tls"]), argument["namespace"]
    client = connect(argument["urls"], token=argument["token"], tls=tls, namespace=namespace)
    try:
        yield client
    finally:
        await client.close()


class Client:
    """Calls the API of one deployment."""

    def __init__(self, transport: Transport, *, clock: Clock = wall_clock) -> None:
        self._transport = transport
        self._clock = clock
        self._lease_tokens: dict[LeaseKey, str] = {}

    async def close(self) -> None:
        await self._transport.close()

    # WorkSource

    async def claim(self, claim: Claim, *, wait: timedelta = timedelta(0)) -> Sequence[Job]:
        """Lease jobs; when there are none, wait. The claim has an id, so that a lost response loses no job."""
        named = replace(claim, limit=min(claim.limit, LARGEST_BATCH), claim_id=claim.claim_id or uuid.uuid4().hex)
        seconds = min(wait, LONGEST_WAIT).total_seconds()
        form = claim_form(named, seconds)
        reply = await self._transport.request("POST", "/v1/leases:claim", ClaimReply, body=form, wait_seconds=seconds)
        jobs = [job_of(job) for job in reply.jobs]
        if reply.lease_tokens:
            tokens = zip(jobs, reply.jobs, strict=True)
            self.add_lease_tokens({(job.id, job.fence): reply.lease_tokens[form.id] for job, form in tokens})
        return jobs

    def lease_tokens(self, keys: Iterable[LeaseKey]) -> dict[LeaseKey, str]:
        """Return the tokens of leases, for another process that renews them; none from an API that needs no token."""
        known = self._lease_tokens
        return {key: known[key] for key in keys if key in known}

    def add_lease_tokens(self, tokens: Mapping[LeaseKey, str]) -> None:
        """Remember the tokens of leases; the oldest of very many are of leases that were lost."""
        self._lease_tokens.update(tokens)
        while len(self._lease_tokens) > MOST_LEASE_TOKENS:
            del self._lease_tokens[next(iter(self._lease_tokens))]

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        renewed: list[Renewed] = []
        for batch in _batches(renewals):
            tokens = self._lease_tokens
            forms = [renewal_form(renewal, tokens.get((renewal.job_id, renewal.fence))) for renewal in batch]
            request = RenewRequest(renewals=forms)
            reply = await self._transport.request(
                "POST", "/v1/leases:renew", RenewReply, body=request, read_seconds=RENEW_SECONDS
            )
            renewed += [renewed_of(form) for form in reply.renewed]
        return renewed

    async def settle(self, reports: Sequence[AttemptReport]) -> Sequence[JobId]:
        settled: list[JobId] = []
        for batch in _batches(reports):
            tokens = self._lease_tokens
            forms = [report_form(report, tokens.get((report.job_id, report.fence))) for report in batch]
            request = SettleRequest(reports=forms)
            reply = await self._transport.request("POST", "/v1/leases:settle", SettleReply, body=request)
            for report in batch if tokens else ():
                tokens.pop((report.job_id, report.fence), None)
            settled += [job_id_of(text) for text in reply.settled]
        return settled

    async def cancels(self, worker: str) -> Sequence[tuple[JobId, int]]:
        """Wait a while for cancels of a worker's running jobs, and give their leases."""
        seconds = LONGEST_WAIT.total_seconds()
        form = WatchRequest(worker_id=worker, wait=seconds)
        reply = await self._transport.request("POST", "/v1/leases:watch", WatchReply, body=form, wait_seconds=seconds)
        return [(job_id_of(one.id), one.fence) for one in reply.cancel]

    # StepKeeper

    async def intend(self, job_id: JobId, fence: int, key: str) -> tuple[Step, bool] | None:
        reply = await self._step(StepRequest(id=to_text(job_id), fence=fence, key=key, act="intend"))
        return None if reply.step is None else (step_of(reply.step), reply.is_new)

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> Step | None:
        reply = await self._step(StepRequest(id=to_text(job_id), fence=fence, key=key, act="conclude", outcome=outcome))
        return None if reply.step is None else step_of(reply.step)

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        return (await self._step(StepRequest(id=to_text(job_id), fence=fence, key=key, act="withdraw"))).holds

    async def begin_wait(self, job_id: JobId, fence: int, wait: Wait) -> Step | None:
        reply = await self._step(wait_form(job_id, fence, wait))
        return None if reply.step is None else step_of(reply.step)

    async def _step(self, request: StepRequest) -> StepReply:
        request.lease_token = self._lease_tokens.get((job_id_of(request.id), request.fence))
        return await self._transport.request("POST", "/v1/leases:step", StepReply, body=request)

    # InputSource

    async def input_of(self, job_id: JobId, fence: int) -> str | None:
        token = self._lease_tokens.get((job_id, fence))
        request = InputRequest(id=to_text(job_id), fence=fence, lease_token=token)
        reply = await self._graph_request("POST", "/v1/leases:input", InputReply, body=request)
        return str(memoryview(reply.value), "utf-8") if reply.holds else None

    async def announce_member(self, member: Member) -> WorkerOrders:
        """Send a heartbeat, and return the orders for the worker."""
        request = HeartbeatRequest(workers=[heartbeat_form(member)])
        reply = await self._transport.request("POST", "/v1/workers:beat", HeartbeatReply, body=request)
        return orders_in(reply, member.boot)

    async def leave(self, boot: str) -> None:
        await self._transport.request("POST", "/v1/workers:leave", type(None), body=LeaveRequest(boot_ids=[boot]))

    async def register_schemas(self, schemas: Mapping[str, str]) -> None:
        """Register the payload schemas of task types."""
        request = TypesRegistration(schemas=dict(schemas))
        await self._transport.request("POST", "/v1/types:register", type(None), body=request)

    # Locks

    async def lock(self, name: str, holder: str, lasting: timedelta) -> Lock | None:
        request = AcquireRequest(name=name, holder=holder, hold=lasting.total_seconds())
        reply = await self._transport.request("POST", "/v1/locks:acquire", AcquireReply, body=request)
        return None if reply.lock is None else lock_of(reply.lock)

    async def unlock(self, name: str, holder: str) -> Lock | None:
        request = ReleaseRequest(name=name, holder=holder)
        reply = await self._transport.request("POST", "/v1/locks:release", ReleaseReply, body=request)
        return None if reply.lock is None else lock_of(reply.lock)

    # Control

    async def submit(self, jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        """Submit jobs. Each has an idempotency key, so that a lost response creates no second job."""
        answers: list[Inserted] = []
        now = self._clock()
        ids = iter([job.id for job in jobs])
        for forms in _requests(msgspec.json.encode(submission_of(_keyed(job), now)) for job in jobs):
            request = BatchRequest(jobs=[msgspec.Raw(form) for form in forms])
            reply = await self._transport.request("POST", "/v1/jobs:batch", BatchReply, body=request)
            answers += [inserted_of(item, own_id) for item, own_id in zip(reply.items, ids, strict=False)]
        return answers

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        jobs = []
        for job_id in ids:
            try:
                form = await self._transport.request("GET", f"/v1/jobs/{to_text(job_id)}", JobForm)
            except InvalidRequest:
                continue
            jobs.append(job_of(form))
        return jobs

    async def find(self, query: JobQuery) -> Sequence[Job]:
        """Find jobs, page by page: a page with a next one may have few jobs, or none."""
        jobs: list[Job] = []
        cursor: str | None = None
        while True:
            page = await self._page(query, query.limit - len(jobs), cursor)
            jobs += map(job_of, page.items)
            cursor = page.next_cursor
            if cursor is None or len(jobs) >= query.limit:
                return jobs

    async def _page(self, query: JobQuery, limit: int, cursor: str | None) -> JobPage:
        filters: dict[str, Any] = {
            "status": ",".join(query.states),
            "type": ",".join(query.types),
            "queue": ",".join(query.queues),
            "tag": query.tag,
            "limit": min(limit, LARGEST_PAGE),
            "cursor": cursor,
            "fields": "payload,result",
        }
        given = {name: value for name, value in filters.items() if value not in (None, "")}
        return await self._transport.request("GET", "/v1/jobs", JobPage, query=given)

    async def wait(self, job_id: JobId, at_most: timedelta) -> Job:
        left = at_most
        while True:
            seconds = min(left, LONGEST_WAIT).total_seconds()
            path = f"/v1/jobs/{to_text(job_id)}/result"
            ended = await self._transport.request(
                "GET", path, ResultForm, query={"wait": seconds}, wait_seconds=seconds
            )
            left -= timedelta(seconds=seconds)
            if ended.state in FINISHED or left <= timedelta(0):
                job = job_of(await self._transport.request("GET", f"/v1/jobs/{to_text(job_id)}", JobForm))
                if job.result == _HIDDEN:
                    await self._refuse_hidden_result()
                return job

    async def _refuse_hidden_result(self) -> None:
        """Raise `Refused` if the token may not see results: the mark in its place is not what the handler returned."""
        access = await self._transport.request("GET", "/v1/me", AccessForm)
        if Action.PAYLOADS_READ not in access.actions:
            raise Refused(f"this token may not see results; use one with the action '{Action.PAYLOADS_READ}'")

    async def cancel(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:  # noqa: ARG002 - the server takes the actor from the token
        return [await self._act(job_id, "cancel", Deed.CANCELLED) for job_id in ids]

    async def retry(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:  # noqa: ARG002 - the server takes the actor from the token
        return [await self._act(job_id, "retry", Deed.RETRIED) for job_id in ids]

    async def _act(self, job_id: JobId, verb: str, deed: Deed) -> ActionResult:
        try:
            form = await self._transport.request("POST", f"/v1/jobs/{to_text(job_id)}/{verb}", JobForm)
        except InvalidRequest as refusal:
            return ActionResult(job_id, refusal=refusal)
        return ActionResult(job_id, Deed.ASKED_TO_STOP if form.state is State.RUNNING else deed)

    async def emit(self, emission: Emission, by: Actor) -> Emitted:  # noqa: ARG002 - the server takes the actor from the token
        check_emission(emission)
        path = f"/v1/events/{quote(emission.name, safe='')}"
        return emitted_of(await self._transport.request("POST", path, EmitReply, body=emit_form(emission)))

    # Workflows

    async def submit_workflow(self, workflow: NewWorkflow) -> WorkflowReceipt:
        """Submit a workflow. It has an idempotency key, so that a lost response creates no second one."""
        body = workflow_request(workflow, self._clock())
        form = await self._graph_request("POST", "/v1/workflows", WorkflowForm, body=body)
        return WorkflowReceipt(WorkflowId(job_id_of(form.id)))

    async def workflow(self, workflow_id: WorkflowId) -> StoredWorkflow:
        return workflow_of(await self._transport.request("GET", _workflow_path(workflow_id), WorkflowForm))

    async def workflow_nodes(self, workflow_id: WorkflowId) -> Sequence[Node]:
        return nodes_of(await self._graph_request("GET", _workflow_path(workflow_id), WorkflowDetail))

    async def workflow_results(self, workflow_id: WorkflowId) -> Sequence[NodeResult]:
        results: list[NodeResult] = []
        query: dict[str, Any] = {"limit": LARGEST_PAGE}
        while True:
            path = f"{_workflow_path(workflow_id)}/results"
            page = await self._graph_request("GET", path, ResultPage, query=query)
            results += map(result_of, page.items)
            if page.next_cursor is None:
                break
            query["cursor"] = page.next_cursor
        if any(one.result == _HIDDEN for one in results):
            await self._refuse_hidden_result()
        return results

    async def cancel_workflow(self, workflow_id: WorkflowId, by: Actor) -> StoredWorkflow:  # noqa: ARG002 - as above
        return await self._act_on_workflow(workflow_id, "cancel", None)

    async def retry_workflow(self, workflow_id: WorkflowId, by: Actor, *, node: str | None = None) -> StoredWorkflow:  # noqa: ARG002
        return await self._act_on_workflow(workflow_id, "retry", RetryNodeRequest(node=node))

    async def skip_node(self, workflow_id: WorkflowId, node: str, by: Actor) -> StoredWorkflow:  # noqa: ARG002 - as above
        return await self._act_on_workflow(workflow_id, "skip", SkipNodeRequest(node=node))

    async def _act_on_workflow(self, workflow_id: WorkflowId, verb: str, body: msgspec.Struct | None) -> StoredWorkflow:
        path = f"{_workflow_path(workflow_id)}/{verb}"
        return workflow_of(await self._graph_request("POST", path, WorkflowForm, body=body))

    async def _graph_request(self, method: str, path: str, form: type[T], **options: Any) -> T:  # noqa: ANN401 - passed on
        """Send a request about up to 10,000 jobs, which takes longer than others."""
        return await self._transport.request(method, path, form, read_seconds=GRAPH_SECONDS, **options)

    async def census(self) -> Census:
        stats = page = await self._transport.request("GET", "/v1/stats", Stats, query={"limit": LARGEST_LANES})
        while page.next_cursor is not None:
            query = {"limit": LARGEST_LANES, "cursor": page.next_cursor}
            page = await self._transport.request("GET", "/v1/stats", Stats, query=query)
            stats.lanes += page.lanes
        return census_of(stats)


def _workflow_path(workflow_id: WorkflowId) -> str:
    return f"/v1/workflows/{to_text(workflow_id)}"


def _keyed(job: NewJob) -> NewJob:
    if job.idempotency is not None:
        return job
    # Its id is also its fingerprint: the job is the same request when it is repeated, with another expiry.
    name = f"rota-{to_text(job.id)}"
    return replace(job, idempotency=IdempotencyKey(name, name.encode()))


def _requests(forms: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Split submissions into requests within the server's limits: number, size and count of JSON names."""
    batch: list[bytes] = []
    size = names = 0
    for form in forms:
        # Each JSON name is followed by a colon; counting those within texts too does no harm.
        colons = form.count(b":")
        is_full = len(batch) == LARGEST_BATCH or size + len(form) > LARGEST_BODY or names + colons > MOST_NAMES
        if batch and is_full:
            yield batch
            batch, size, names = [], 0, 0
        batch.append(form)
        size += len(form) + 1
        names += colons
    if batch:
        yield batch


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), LARGEST_BATCH):
        yield items[start : start + LARGEST_BATCH]

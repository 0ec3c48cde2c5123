"""Workflows: submit a graph of jobs, list and show them, cancel, run nodes again, skip a node."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rota.api.cursors import cut_page, decode_cursor, encode_cursor
from rota.api.errors import invalid
from rota.api.headers import IDEMPOTENCY_KEY, TRACEPARENT
from rota.api.http import Request, Response, json_response
from rota.api.job_filter import PageQuery
from rota.api.job_pages import PAGE_BYTES
from rota.api.json_body import decode_body
from rota.api.permissions import uncovered_jobs
from rota.api.router import QueueCheck, Route
from rota.api.routes.jobs_submit import header_key, new_job
from rota.core.access import Action, covers_queue
from rota.core.errors import JobNotFound
from rota.core.graph import KEY_PREFIX, NewNode, NewWorkflow, Node, StoredWorkflow, WorkflowId, planned
from rota.core.ids import to_number, to_text
from rota.core.submission import IdempotencyKey, NewJob, unknown_parent
from rota.engine.relations import RelatedJob
from rota.wire.scalars import job_id_of
from rota.wire.submission import agreed_value, normalized
from rota.wire.workflows import (
    JobNodeForm,
    RelatedJobForm,
    RelationsForm,
    ResultPage,
    RetryNodeRequest,
    SkipNodeRequest,
    WorkflowDetail,
    WorkflowForm,
    WorkflowPage,
    WorkflowRequest,
    parents_of,
    request_hash_of,
    result_form,
    submission_of_node,
    workflow_detail,
    workflow_form,
)

KIND: Final = "workflows"
RESULTS: Final = "workflow-results"
#: Graphs of this size and more are checked on a thread, so that they do not block the event loop.
LARGE_GRAPH: Final = 200


async def submit(request: Request) -> Response:
    """Store a workflow with all its jobs (201), or give the one that an earlier request with this key has stored."""
    limits = request.context.limits
    body = await decode_body(await request.json(), WorkflowRequest, replace(limits, keys=limits.graph_keys))
    workflow = await _workflow(request, body)
    outside = [parent.on for job in workflow.jobs for parent in job.after]
    if request.key.queues and (hidden := await uncovered_jobs(request, outside)):
        raise unknown_parent(min(hidden))
    receipt = await request.engine.workflows.submit(workflow)
    form = workflow_form(await request.engine.workflows.one(receipt.workflow_id))
    location = f"/v1/workflows/{form.id}"
    if receipt.is_replayed:
        return json_response(form, location=location, idempotent_replayed="true")
    return json_response(form, 201, location=location)


async def _workflow(request: Request, body: WorkflowRequest) -> NewWorkflow:
    now = await request.engine.store.time()
    jobs: list[NewJob] = []
    for node in body.nodes:
        jobs.append(new_job(request, normalized(submission_of_node(node)), now))
        if len(jobs) % LARGE_GRAPH == 0:
            # A graph may have 10,000 nodes: let other requests run in between.
            await asyncio.sleep(0)
    given = {"idempotency_key": body.idempotency_key, "Idempotency-Key": header_key(request)}
    key, workflow_id = agreed_value(given), WorkflowId(request.engine.fresh_id())
    if len(jobs) < LARGE_GRAPH:
        return _planned(request, body, jobs, key, workflow_id)
    return await asyncio.to_thread(_planned, request, body, jobs, key, workflow_id)


def _planned(
    request: Request, body: WorkflowRequest, jobs: list[NewJob], key: str | None, workflow_id: WorkflowId
) -> NewWorkflow:
    """Check the graph and join its jobs; it reads values only, so that a thread can do it for a large graph."""
    if key is not None:
        # The key belongs to the first job, so that it is kept as long as a job's.
        own = IdempotencyKey(
            KEY_PREFIX + key, request_hash_of(body, request.context.settings.defaults), request.key.key_scope
        )
        jobs[0] = replace(jobs[0], idempotency=own)
    nodes = [
        NewNode(node.name, job, parents) for node, job, parents in zip(body.nodes, jobs, parents_of(body), strict=True)
    ]
    return planned(workflow_id, body.name, nodes, body.policy)


async def list_workflows(request: Request) -> Response:
    """List workflows, newest first."""
    listing = request.query(PageQuery)
    found = await request.engine.workflows.page(_before(listing.cursor), listing.limit + 1)
    items, cursor = cut_page(KIND, found, listing.limit, lambda one: to_text(one.id))
    return json_response(WorkflowPage(items=[workflow_form(one) for one in items], next_cursor=cursor))


def _before(cursor: str | None) -> WorkflowId | None:
    place = decode_cursor(KIND, cursor)
    try:
        return None if place is None else WorkflowId(to_number(place))
    except JobNotFound:
        raise _wrong_cursor() from None


def _wrong_cursor() -> Exception:
    return invalid([("cursor", "this is not a cursor of this list; take it from 'next_cursor'")])


async def get(request: Request) -> Response:
    """Show a workflow with its graph and how far it is."""
    workflow, nodes = await _read(request)
    return json_response(workflow_detail(workflow, nodes))


async def _read(request: Request) -> tuple[StoredWorkflow, Sequence[Node]]:
    """Read the workflow in the path; one with jobs in queues that the token does not cover is unknown."""
    workflow_id = WorkflowId(job_id_of(request.path_params["id"]))
    workflow = await request.engine.workflows.one(workflow_id)
    nodes = await request.engine.workflows.nodes(workflow_id)
    queues = request.key.queues
    if queues and not all(one.queue is not None and covers_queue(queues, one.queue) for one in nodes):
        name = to_text(workflow_id)
        raise JobNotFound(f"workflow {name}: unknown, or outside the queues of this token", field="id")
    return workflow, nodes


async def results(request: Request) -> Response:
    """List the current nodes of a workflow with the results of their jobs, by position."""
    listing = request.query(PageQuery)
    workflow, _ = await _read(request)
    place = decode_cursor(RESULTS, listing.cursor) or "0"
    if not place.isdecimal() or len(place) > len("10000"):
        raise _wrong_cursor()
    start = int(place)
    async with request.context.large_pages:
        page, is_more = await request.engine.workflows.result_page(workflow.id, start, listing.limit, PAGE_BYTES)
        cursor = encode_cursor(RESULTS, str(start + len(page))) if is_more else None
        return json_response(ResultPage(items=[result_form(one) for one in page], next_cursor=cursor))


async def cancel(request: Request) -> Response:
    """Cancel all jobs of a workflow that wait, and ask those that run to stop."""
    workflow, _ = await _read(request)
    return json_response(workflow_form(await request.engine.workflows.cancel(workflow.id, request.actor)))


async def retry(request: Request) -> Response:
    """Run the failed nodes again, or one node; and all nodes after them, with new jobs."""
    body = await request.read_or(RetryNodeRequest, RetryNodeRequest())
    workflow, _ = await _read(request)
    again = await request.engine.workflows.retry(workflow.id, request.actor, node=body.node)
    return json_response(workflow_form(again))


async def skip(request: Request) -> Response:
    """Skip a node: it does not run, and the nodes after it go on as if it had succeeded."""
    body = await request.read(SkipNodeRequest)
    workflow, _ = await _read(request)
    return json_response(workflow_form(await request.engine.workflows.skip(workflow.id, body.node, request.actor)))


async def relations(request: Request) -> Response:
    """Show the jobs before and after a job, and its workflow; jobs outside the queues of a token are left out."""
    found = await request.engine.relations.of(job_id_of(request.path_params["id"]))
    node = found.node
    form = RelationsForm(
        id=to_text(found.job.id),
        state=found.job.state,
        parent_id=None if found.job.parent_id is None else to_text(found.job.parent_id),
        after=_related(request, found.after),
        after_count=found.after_count,
        followers=_related(request, found.followers),
        follower_count=found.follower_count,
        workflow=None
        if node is None
        else JobNodeForm(
            workflow_id=to_text(node.workflow_id),
            node=node.name,
            position=node.position,
            is_current=node.is_current,
            runs=[to_text(one.job_id) for one in found.runs],
        ),
    )
    return json_response(form)


def _related(request: Request, jobs: Sequence[RelatedJob]) -> list[RelatedJobForm]:
    queues = request.key.queues
    return [
        RelatedJobForm(id=to_text(one.id), need=one.need, is_met=one.is_met, type=one.type, state=one.state)
        for one in jobs
        if not queues or (one.queue is not None and covers_queue(queues, one.queue))
    ]


ROUTES = (
    Route(
        method="GET",
        path="/v1/jobs/{id}/relations",
        action=Action.JOBS_READ,
        queue_check=QueueCheck.JOB,
        handler=relations,
        summary="Show the jobs before and after a job, and its workflow",
        tag="workflows",
        responses={200: RelationsForm},
    ),
    Route(
        method="POST",
        path="/v1/workflows",
        action=Action.JOBS_SUBMIT,
        queue_check=QueueCheck.HANDLER,
        handler=submit,
        summary="Submit a workflow: up to 10,000 jobs with dependencies, all or none",
        tag="workflows",
        body=WorkflowRequest,
        headers=(IDEMPOTENCY_KEY, TRACEPARENT),
        responses={201: WorkflowForm, 200: WorkflowForm},
        error_statuses=(409,),
    ),
    Route(
        method="GET",
        path="/v1/workflows",
        action=Action.JOBS_READ,
        handler=list_workflows,
        summary="List workflows, newest first",
        tag="workflows",
        query=PageQuery,
        responses={200: WorkflowPage},
    ),
    Route(
        method="GET",
        path="/v1/workflows/{id}",
        action=Action.JOBS_READ,
        queue_check=QueueCheck.HANDLER,
        handler=get,
        summary="Show a workflow with its graph and how far it is",
        tag="workflows",
        responses={200: WorkflowDetail},
    ),
    Route(
        method="GET",
        path="/v1/workflows/{id}/results",
        action=Action.JOBS_READ,
        queue_check=QueueCheck.HANDLER,
        handler=results,
        summary="List the nodes of a workflow with their results",
        tag="workflows",
        query=PageQuery,
        responses={200: ResultPage},
    ),
    Route(
        method="POST",
        path="/v1/workflows/{id}/cancel",
        action=Action.JOBS_CANCEL,
        queue_check=QueueCheck.HANDLER,
        handler=cancel,
        summary="Cancel all jobs of a workflow, and ask running ones to stop",
        tag="workflows",
        responses={200: WorkflowForm},
        error_statuses=(409,),
    ),
    Route(
        method="POST",
        path="/v1/workflows/{id}/retry",
        action=Action.JOBS_RETRY,
        queue_check=QueueCheck.HANDLER,
        handler=retry,
        summary="Run the failed nodes again, or one node; and all nodes after them",
        tag="workflows",
        body=RetryNodeRequest,
        body_is_optional=True,
        responses={200: WorkflowForm},
        error_statuses=(409,),
    ),
    Route(
        method="POST",
        path="/v1/workflows/{id}/skip",
        action=Action.JOBS_RETRY,
        queue_check=QueueCheck.HANDLER,
        handler=skip,
        summary="Skip a node; the nodes after it go on as if it had succeeded",
        tag="workflows",
        body=SkipNodeRequest,
        responses={200: WorkflowForm},
        error_statuses=(409,),
    ),
)

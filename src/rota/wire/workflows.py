"""Forms of workflows: graphs of jobs that are submitted, shown and acted on as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

from rota.core.errors import InvalidRequest
from rota.core.graph import (
    KEY_PREFIX,
    MOST_EDGES,
    MOST_NODES,
    NewNode,
    NewWorkflow,
    Node,
    NodeCount,
    NodeParent,
    StoredWorkflow,
    WorkflowId,
    WorkflowPolicy,
    WorkflowState,
)
from rota.core.ids import to_text
from rota.core.lifecycle import FINISHED, State
from rota.core.request_hash import canonical_request_hash, workflow_hash
from rota.core.settlement import JobError, Reason
from rota.core.submission import Need
from rota.ports.client import NodeResult
from rota.wire.scalars import Count, Identifier, Moment, Name, id_in_field, job_id_of
from rota.wire.submission import Defaults, FollowUp, Submission, fingerprint_hash, submission_of, template_of


class NodeAfterForm(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node to wait for, or a job outside the workflow: until it succeeds, ends in any way (`end`), or fails."""

    node: Name | None = None
    job: Identifier | None = None
    need: Need = Need.SUCCESS


class NodeRequest(FollowUp, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node of a new workflow: a job with a name. `after` names the nodes that it waits for."""

    name: Name
    run_at: Moment | None = None
    after: Annotated[list[Name | NodeAfterForm], Meta(max_length=MOST_NODES)] | None = None


class WorkflowRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A new workflow. It is stored as a whole, or refused as a whole.

    If a node fails, `finish` runs what does not depend on it; `fail_fast` cancels the rest, except for nodes that are
    there for a failure or for any end.
    """

    name: Name
    nodes: Annotated[list[NodeRequest], Meta(min_length=1, max_length=MOST_NODES)]
    policy: WorkflowPolicy = WorkflowPolicy.FINISH
    idempotency_key: Name | None = None
    #: Compared when the key is used again. Without it the whole graph is compared.
    idempotency_fingerprint: Name | None = None


class RetryNodeRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """From which node to run again; without it, all nodes that failed."""

    node: Name | None = None


class SkipNodeRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which node to skip."""

    node: Name


class WorkflowForm(Struct, kw_only=True):
    """A workflow. `progress` counts its nodes by state; skipped ones and those not needed by themselves."""

    id: Identifier
    name: str
    state: WorkflowState
    policy: WorkflowPolicy
    node_count: Count
    done: Count
    progress: dict[str, Count]
    created_at: datetime


class WorkflowPage(Struct, kw_only=True):
    """A page of workflows, newest first."""

    items: list[WorkflowForm]
    next_cursor: str | None


class EarlierRun(Struct, kw_only=True):
    """A job of a node that ran again."""

    job_id: Identifier
    state: State | None
    reason: Reason | None


class NodeForm(Struct, kw_only=True):
    """A node and its job. A node that succeeds first is named in `after`; others have their condition with them.

    `is_pruned`: the job was deleted by retention. `run_at` is when the job is due. `earlier` are the jobs of earlier
    runs, the oldest first.
    """

    name: str
    position: Count
    job_id: Identifier
    after: list[str | NodeAfterForm]
    state: State | None
    reason: Reason | None
    is_skipped: bool
    is_pruned: bool
    runs_after_failure: bool
    type: str | None
    queue: str | None
    attempts: Count
    created_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    run_at: datetime | None = None
    earlier: list[EarlierRun]


class WorkflowDetail(WorkflowForm, kw_only=True):
    """A workflow with its graph."""

    nodes: list[NodeForm]


class NodeErrorForm(Struct, kw_only=True):
    """Why the last attempt of a node failed."""

    kind: str
    message: str


class NodeResultForm(Struct, kw_only=True):
    """A node and the result of its job; null without one."""

    name: str
    position: Count
    job_id: Identifier
    state: State | None
    reason: Reason | None
    result: Raw
    has_result: bool
    error: NodeErrorForm | None


class ResultPage(Struct, kw_only=True):
    """A page of nodes with their results, by position."""

    items: list[NodeResultForm]
    next_cursor: str | None


def submission_of_node(node: NodeRequest) -> Submission:
    """Return the job of a node as a submission of its own, without dependencies."""
    shared = {name: getattr(node, name) for name in FollowUp.__struct_fields__}
    return Submission(**shared, run_at=node.run_at)


def parents_of(request: WorkflowRequest) -> list[tuple[NodeParent, ...]]:
    """Return the dependencies of each node by position; refuse a name that no node has."""
    positions = {node.name: position for position, node in enumerate(request.nodes)}
    if sum(len(node.after or ()) for node in request.nodes) > MOST_EDGES:
        message = f"nodes: more than {MOST_EDGES:,} dependencies; put a node in between"
        raise InvalidRequest(message, field="nodes")
    return [tuple(_parent(node.name, one, positions) for one in node.after or ()) for node in request.nodes]


def _parent(name: str, given: str | NodeAfterForm, positions: Mapping[str, int]) -> NodeParent:
    form = NodeAfterForm(node=given) if isinstance(given, str) else given
    if (form.node is None) == (form.job is None):
        raise InvalidRequest(f"after: node {name!r}: give either 'node' or 'job'", field="after")
    if form.job is not None:
        return NodeParent(None, form.need, id_in_field(form.job, "after"))
    position = positions.get(form.node or "")
    if position is None:
        raise InvalidRequest(f"after: node {name!r} waits for {form.node!a}, and no node has this name", field="after")
    return NodeParent(position, form.need)


def request_hash_of(request: WorkflowRequest, defaults: Defaults) -> bytes:
    """Return the hash that is stored with the key of a workflow: of its fingerprint, or of the graph."""
    if request.idempotency_fingerprint is not None:
        return fingerprint_hash(request.idempotency_fingerprint)
    nodes = [
        (node.name, canonical_request_hash(template_of(node, defaults), run_at=node.run_at), parents)
        for node, parents in zip(request.nodes, parents_of(request), strict=True)
    ]
    return workflow_hash(request.name, request.policy, nodes)


def workflow_request(workflow: NewWorkflow, now: datetime) -> WorkflowRequest:
    """Convert a new workflow to a request. Expiries count from `now`.

    It has a key in any case, so that a lost response creates no second one.
    """
    key = workflow.nodes[0].job.idempotency
    names = [node.name for node in workflow.nodes]
    return WorkflowRequest(
        name=workflow.name,
        policy=workflow.policy,
        idempotency_key=f"rota-{to_text(workflow.id)}" if key is None else key.key.removeprefix(KEY_PREFIX),
        idempotency_fingerprint=None if key is None else key.request.hex() or None,
        nodes=[_node_request(node, names, now) for node in workflow.nodes],
    )


def _node_request(node: NewNode, names: Sequence[str], now: datetime) -> NodeRequest:
    form = submission_of(node.job, now)
    shared = {name: getattr(form, name) for name in FollowUp.__struct_fields__}
    after = [_after_of(one, names) for one in node.parents] if node.parents else None
    return NodeRequest(**shared, name=node.name, run_at=form.run_at, after=after)


def _after_of(parent: NodeParent, names: Sequence[str]) -> str | NodeAfterForm:
    if parent.position is None:
        return NodeAfterForm(job=to_text(parent.job_id or 0), need=parent.need)
    name = names[parent.position]
    return name if parent.need is Need.SUCCESS else NodeAfterForm(node=name, need=parent.need)


def workflow_form(workflow: StoredWorkflow) -> WorkflowForm:
    return WorkflowForm(**_head(workflow))


def _head(workflow: StoredWorkflow) -> dict[str, Any]:
    done = sum(one.count for one in workflow.counts if one.state is None or one.state in FINISHED)
    return {
        "id": to_text(workflow.id),
        "name": workflow.name,
        "state": workflow.state,
        "policy": workflow.policy,
        "node_count": workflow.node_count,
        "done": done,
        "progress": dict(workflow.progress),
        "created_at": workflow.created_at,
    }


def workflow_detail(workflow: StoredWorkflow, nodes: Sequence[Node]) -> WorkflowDetail:
    current = [one for one in nodes if one.is_current]
    names = [one.name for one in current]
    earlier: dict[int, list[EarlierRun]] = {}
    for one in nodes:
        if not one.is_current:
            run = EarlierRun(job_id=to_text(one.job_id), state=one.state, reason=one.reason)
            earlier.setdefault(one.position, []).append(run)
    return WorkflowDetail(
        **_head(workflow), nodes=[_node_form(one, names, earlier.get(one.position, [])) for one in current]
    )


def _node_form(node: Node, names: Sequence[str], earlier: list[EarlierRun]) -> NodeForm:
    return NodeForm(
        name=node.name,
        position=node.position,
        job_id=to_text(node.job_id),
        after=[_after_of(one, names) for one in node.parents],
        state=node.state,
        reason=node.reason,
        is_skipped=node.is_skipped or node.reason is Reason.SKIPPED,
        is_pruned=node.is_pruned,
        runs_after_failure=node.runs_after_failure,
        type=node.type,
        queue=node.queue,
        attempts=node.attempts,
        created_at=node.created_at,
        started_at=node.started_at,
        finished_at=node.finished_at,
        run_at=node.run_at,
        earlier=earlier,
    )


def result_form(one: NodeResult) -> NodeResultForm:
    error = None if one.error is None else NodeErrorForm(kind=one.error.kind, message=one.error.message)
    return NodeResultForm(
        name=one.name,
        position=one.position,
        job_id=to_text(one.job_id),
        state=one.state,
        reason=one.reason,
        result=Raw(one.result or "null"),
        has_result=one.result is not None,
        error=error,
    )


def workflow_of(form: WorkflowForm) -> StoredWorkflow:
    """Read a workflow. Its state and progress come from the counts, which have no reasons."""
    counts = tuple(_count_of(name, number) for name, number in form.progress.items())
    return StoredWorkflow(
        WorkflowId(job_id_of(form.id)), form.name, form.policy, form.node_count, form.created_at, counts, form.state
    )


def _count_of(name: str, count: int) -> NodeCount:
    reason = {"skipped": Reason.SKIPPED, "not_needed": Reason.NOT_NEEDED}.get(name)
    state = State.CANCELLED if reason else None if name == "unknown" else State(name)
    return NodeCount(state=state, reason=reason, is_skipped=False, count=count)


def nodes_of(detail: WorkflowDetail) -> list[Node]:
    """Read the nodes of a workflow, those of earlier runs included."""
    positions = {node.name: node.position for node in detail.nodes}
    nodes: list[Node] = []
    for form in detail.nodes:
        workflow_id = WorkflowId(job_id_of(detail.id))
        parents = tuple(_parent(form.name, one, positions) for one in form.after)
        node = Node(
            workflow_id=workflow_id,
            position=form.position,
            name=form.name,
            job_id=job_id_of(form.job_id),
            parents=parents,
            runs_after_failure=form.runs_after_failure,
            replaced_by=None,
            is_skipped=form.is_skipped,
            state=form.state,
            reason=form.reason,
            is_pruned=form.is_pruned,
            type=form.type,
            queue=form.queue,
            attempts=form.attempts,
            created_at=form.created_at,
            started_at=form.started_at,
            finished_at=form.finished_at,
            run_at=form.run_at,
        )
        runs = [*form.earlier, EarlierRun(job_id=form.job_id, state=form.state, reason=form.reason)]
        for run, following in pairwise(runs):
            nodes.append(_earlier_node(node, run, following.job_id))
        nodes.append(node)
    return nodes


def _earlier_node(node: Node, run: EarlierRun, by: str) -> Node:
    return Node(
        node.workflow_id,
        node.position,
        node.name,
        job_id_of(run.job_id),
        node.parents,
        node.runs_after_failure,
        job_id_of(by),
        False,  # noqa: FBT003 - the order of the fields
        run.state,
        run.reason,
    )


def result_of(form: NodeResultForm) -> NodeResult:
    return NodeResult(
        form.position,
        form.name,
        job_id_of(form.job_id),
        form.state,
        form.reason,
        str(memoryview(form.result), "utf-8") if form.has_result else None,
        None if form.error is None else JobError(form.error.kind, form.error.message),
    )


class RelatedJobForm(Struct, kw_only=True):
    """A job at the other end of a dependency; `state` and `type` are null if it was pruned."""

    id: Identifier
    need: Need
    is_met: bool
    type: str | None
    state: State | None


class JobNodeForm(Struct, kw_only=True):
    """The node of a job in its workflow; `runs` are all jobs of the node, the oldest first."""

    workflow_id: Identifier
    node: str
    position: Count
    is_current: bool
    runs: list[Identifier]


class RelationsForm(Struct, kw_only=True):
    """The jobs that a job waits or waited for (`after`), those that wait for it, the job that made it, its workflow.

    Of many jobs the first 500 are listed; the counts are of all.
    """

    id: Identifier
    state: State
    parent_id: Identifier | None
    after: list[RelatedJobForm]
    after_count: Count
    followers: list[RelatedJobForm]
    follower_count: Count
    workflow: JobNodeForm | None

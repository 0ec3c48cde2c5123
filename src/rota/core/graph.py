"""Workflow graphs: named nodes, each a job, with dependencies between them; limits, checks, progress and re-runs.

A workflow is stored with its nodes, and each node names its job. Its progress is derived from the states of the jobs,
so no count can be wrong. A node that runs again gets a new job; the old one stays, with the id of the new one.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, NewType, NoReturn

from rota.core.errors import InvalidRequest
from rota.core.ids import JobId, to_number, to_text
from rota.core.lifecycle import FINISHED, State
from rota.core.settlement import Reason
from rota.core.submission import LONGEST_NAME, Dependency, Need, NewJob
from rota.core.value import value

WorkflowId = NewType("WorkflowId", int)

#: The largest graph.
MOST_NODES: Final = 10_000
MOST_EDGES: Final = 100_000
DEEPEST: Final = 1_000
#: The idempotency key of a workflow is stored with its first job, in this scope: so it is not the key of that job.
KEY_PREFIX: Final = "workflow "


class WorkflowPolicy(StrEnum):
    """What happens to the other jobs of a workflow when one fails."""

    #: What does not depend on the failed job still runs.
    FINISH = "finish"
    #: The rest is cancelled, except for jobs that are there for a failure or for any end, and those after them.
    FAIL_FAST = "fail_fast"


class WorkflowState(StrEnum):
    """The state of a workflow, which follows from the states of its jobs."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class NodeParent:
    """A dependency of a node: on the node at `position`, or on a job that is not part of the workflow."""

    position: int | None
    need: Need = Need.SUCCESS
    job_id: JobId | None = None


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node as it is submitted. Its job has no dependencies of its own; they follow from `parents`."""

    name: str
    job: NewJob
    parents: tuple[NodeParent, ...] = ()


@dataclass(frozen=True, slots=True)
class NewWorkflow:
    """A workflow as it is submitted: a checked graph whose jobs name their dependencies by id; see `planned`."""

    id: WorkflowId
    name: str
    policy: WorkflowPolicy
    nodes: tuple[NewNode, ...]

    @property
    def jobs(self) -> Sequence[NewJob]:
        return [node.job for node in self.nodes]


def planned(
    workflow_id: WorkflowId, name: str, nodes: Sequence[NewNode], policy: WorkflowPolicy = WorkflowPolicy.FINISH
) -> NewWorkflow:
    """Check a graph and give its jobs their dependencies; refuse it as a whole."""
    check_name("name", name)
    check_graph(nodes)
    ids = [node.job.id for node in nodes]
    return NewWorkflow(
        workflow_id,
        name,
        policy,
        tuple(replace(node, job=_with_parents(node, ids)) if node.parents else node for node in nodes),
    )


def _with_parents(node: NewNode, ids: Sequence[JobId]) -> NewJob:
    return replace(node.job, after=tuple(Dependency(_parent_id(one, ids), one.need) for one in node.parents))


def _parent_id(parent: NodeParent, ids: Sequence[JobId]) -> JobId:
    if parent.position is not None:
        return ids[parent.position]
    assert parent.job_id is not None
    return parent.job_id


def check_name(field: str, name: object) -> None:
    """Refuse a name or a key that cannot be stored or shown."""
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        given = ascii(name[:40] if isinstance(name, str) else name)
        _refuse(field, f"{given} will not do: give a text of 1 to {LONGEST_NAME} printable characters")


def check_graph(nodes: Sequence[NewNode]) -> None:
    """Refuse a graph that is empty, too large or too deep, has a cycle, or names a node twice."""
    if not nodes:
        _refuse("nodes", "a workflow has at least one node")
    if len(nodes) > MOST_NODES:
        _refuse("nodes", f"{len(nodes):,} nodes; a workflow has at most {MOST_NODES:,}; split it")
    names = Counter(node.name for node in nodes)
    for name, count in names.items():
        check_name("nodes", name)
        if count > 1:
            _refuse("nodes", f"the name {name!r} is given to {count} nodes; give each its own")
    edges = sum(len(node.parents) for node in nodes)
    if edges > MOST_EDGES:
        _refuse("nodes", f"{edges:,} dependencies; a workflow has at most {MOST_EDGES:,}; put a node in between")
    for node in nodes:
        if node.job.unique is not None:
            _refuse(
                "nodes",
                f"node {node.name!r}: a node takes no unique_for, throttle or debounce, since a graph is stored as a"
                " whole; give the workflow an idempotency_key instead",
            )
        positions = [one.position for one in node.parents if one.position is not None]
        if len(set(positions)) < len(positions):
            _refuse("after", f"node {node.name!r} names another node twice; name it once, with one condition")
        if any(not 0 <= one < len(nodes) for one in positions):
            _refuse("after", f"node {node.name!r} waits for a node that is not there")
    _check_depth(nodes)


def _check_depth(nodes: Sequence[NewNode]) -> None:
    followers = followers_of([node.parents for node in nodes])
    waits = [sum(1 for one in node.parents if one.position is not None) for node in nodes]
    depths = [1] * len(nodes)
    free = deque(position for position, count in enumerate(waits) if not count)
    seen = 0
    while free:
        position = free.popleft()
        seen += 1
        for follower in followers[position]:
            depths[follower] = max(depths[follower], depths[position] + 1)
            waits[follower] -= 1
            if not waits[follower]:
                free.append(follower)
    if seen < len(nodes):
        circle = sorted(nodes[position].name for position, count in enumerate(waits) if count)[:5]
        _refuse("after", f"these nodes wait for each other in a circle: {', '.join(circle)}; remove a dependency")
    if max(depths) > DEEPEST:
        _refuse("nodes", f"the longest chain has {max(depths):,} nodes; at most {DEEPEST:,} may follow each other")


def followers_of(parents: Sequence[Collection[NodeParent]]) -> list[list[int]]:
    """Return for each position the positions of the nodes that wait for it."""
    followers: list[list[int]] = [[] for _ in parents]
    for position, its_parents in enumerate(parents):
        for parent in its_parents:
            if parent.position is not None:
                followers[parent.position].append(position)
    return followers


def below(starts: Iterable[int], parents: Sequence[Collection[NodeParent]]) -> set[int]:
    """Return the positions of some nodes and of all nodes after them."""
    followers = followers_of(parents)
    positions = set(starts)
    open_positions = list(positions)
    while open_positions:
        for follower in followers[open_positions.pop()]:
            if follower not in positions:
                positions.add(follower)
                open_positions.append(follower)
    return positions


def after_failures(parents: Sequence[Collection[NodeParent]]) -> set[int]:
    """Return the positions of nodes that a workflow that fails fast does not cancel.

    These are there for a failure or for any end of another node, or come after such a node.
    """
    return below(
        (
            place
            for place, its_parents in enumerate(parents)
            if any(one.need is not Need.SUCCESS for one in its_parents)
        ),
        parents,
    )


def _refuse(field: str, problem: str) -> NoReturn:
    raise InvalidRequest(f"{field}: {problem}", field=field)


@value
class Node:
    """A node as it is stored, with what is known of its job; `state` is None only if the job is unknown.

    `replaced_by` is the job that runs in place of this one; then the node is of an earlier run. The job of a pruned
    node was deleted by retention; how it ended is kept.
    """

    workflow_id: WorkflowId
    position: int
    name: str
    job_id: JobId
    parents: tuple[NodeParent, ...]
    runs_after_failure: bool
    replaced_by: JobId | None
    is_skipped: bool
    state: State | None
    reason: Reason | None
    is_pruned: bool = False
    type: str | None = None
    queue: str | None = None
    attempts: int = 0
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    run_at: datetime | None = None

    @property
    def is_current(self) -> bool:
        return self.replaced_by is None

    @property
    def has_failed(self) -> bool:
        """Whether the node ended without success and may run again."""
        return (
            not self.is_skipped
            and self.state in {State.DEAD, State.CANCELLED}
            and self.reason not in {Reason.NOT_NEEDED, Reason.SKIPPED}
        )


@value
class NodeCount:
    """How many nodes of a workflow have jobs in a state, for a reason."""

    state: State | None
    reason: Reason | None
    is_skipped: bool
    count: int


@value
class StoredWorkflow:
    """A workflow as it is stored, with the counts of its nodes."""

    id: WorkflowId
    name: str
    policy: WorkflowPolicy
    node_count: int
    created_at: datetime
    counts: tuple[NodeCount, ...] = ()
    #: As the server reported it; the counts in its response lack the reasons.
    told_state: WorkflowState | None = None

    @property
    def state(self) -> WorkflowState:
        return self.told_state or state_of(self.counts)

    @property
    def progress(self) -> Mapping[str, int]:
        """How many nodes are in each state; skipped ones and those that were not needed by themselves."""
        counts: Counter[str] = Counter()
        for one in self.counts:
            counts[_shown(one)] += one.count
        return counts


def _shown(one: NodeCount) -> str:
    if one.is_skipped or one.reason is Reason.SKIPPED:
        return "skipped"
    if one.reason is Reason.NOT_NEEDED:
        return "not_needed"
    return "unknown" if one.state is None else one.state.value


def state_of(counts: Iterable[NodeCount]) -> WorkflowState:
    """Return the state of a workflow. Skipped nodes, and those that were not needed, count as done.

    A node whose dependency failed has failed too, unless that was a node that was cancelled by request.
    """
    ends = [one for one in counts if one.state is not None]
    if any(one.state not in FINISHED for one in ends):
        return WorkflowState.RUNNING
    ends = [one for one in ends if not one.is_skipped]
    reasons = {one.reason for one in ends if one.state is State.CANCELLED}
    if any(one.state is State.DEAD for one in ends) or reasons & {Reason.EXPIRED, Reason.WORKFLOW_FAILED}:
        return WorkflowState.FAILED
    if reasons - {Reason.NOT_NEEDED, Reason.SKIPPED, Reason.DEPENDENCY_FAILED}:
        return WorkflowState.CANCELLED
    return WorkflowState.FAILED if Reason.DEPENDENCY_FAILED in reasons else WorkflowState.COMPLETED


@value
class Rerun:
    """Nodes of a workflow that run again: their new jobs, in place of the jobs that `replaces` names in this order.

    `skipped` are positions of failed nodes that from now on count as done.
    """

    workflow_id: WorkflowId
    nodes: tuple[Node, ...]
    jobs: Sequence[NewJob]
    replaces: tuple[JobId, ...]
    skipped: tuple[int, ...] = ()


def parents_text(parents: Sequence[NodeParent]) -> str:
    """Write the dependencies of a node as stores keep them; one on a node that must succeed is its position."""
    return json.dumps([_parent_plain(one) for one in parents], separators=(",", ":"))


def _parent_plain(parent: NodeParent) -> object:
    if parent.position is None:
        return [to_text(parent.job_id or 0), parent.need.value]
    return parent.position if parent.need is Need.SUCCESS else [parent.position, parent.need.value]


def parents_of_text(text: str) -> tuple[NodeParent, ...]:
    """Read the dependencies of a node back."""
    return tuple(_parent_of(one) for one in json.loads(text))


def _parent_of(plain: object) -> NodeParent:
    if isinstance(plain, int):
        return NodeParent(plain)
    assert isinstance(plain, list)
    place, need = plain
    if isinstance(place, int):
        return NodeParent(place, Need(need))
    return NodeParent(None, Need(need), JobId(to_number(place)))

"""Flows: calls that are chained and grouped, not submitted yet; submitted as one workflow.

A flow is a list of nodes, each a call with the nodes it waits for, and its ends: the nodes whose results are its value.
A flow with one end has that node's result, a group the list of its ends' results. Flows are never changed; `then` and
the like make new ones.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NoReturn, Protocol, TypeAlias, TypeVar, overload

from rota.core.errors import InvalidRequest
from rota.core.graph import (
    KEY_PREFIX,
    NewNode,
    NewWorkflow,
    NodeParent,
    WorkflowId,
    WorkflowPolicy,
    check_name,
    planned,
)
from rota.core.ids import JobId
from rota.core.request_hash import canonical_request_hash, workflow_hash
from rota.core.submission import SHAPE, TAKES, IdempotencyKey, Need, Takes
from rota.sdk.workflow_handle import WorkflowHandle, asubmit_workflow, submit_workflow

if TYPE_CHECKING:
    from rota.sdk.app import Rota
    from rota.sdk.task import Call

R = TypeVar("R")
R2 = TypeVar("R2")
R3 = TypeVar("R3")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
T_contra = TypeVar("T_contra", contravariant=True)

#: What a failure handler gets: id, type, state, reason, error and payload of the job that failed.
Failure: TypeAlias = Mapping[str, Any]
PolicyName: TypeAlias = Literal["finish", "fail_fast"] | WorkflowPolicy
#: Options that belong to one job or one transaction, not to a node.
_NOT_OF_NODES: Final = {
    "idempotency_key": "give it to submit(idempotency_key=…), for the workflow as a whole",
    "tx": "give it to submit(tx=…), for the workflow as a whole",
}
#: The longest value in a job's meta that the API takes.
_LONGEST_SHAPE: Final = 1_000
#: The shape of a group: how many results follow each other, or in turn the shape of a group within it.
Shape: TypeAlias = "list[int | Shape]"


class Taker(Protocol[T_contra, R]):
    """A task that can be called with one argument, which comes from the jobs before it."""

    def call(self, value: T_contra, /) -> Call[R]:
        """Make a call without submitting it."""
        ...


@dataclass(frozen=True, slots=True)
class FlowNode:
    """A call, and the positions of the nodes it waits for."""

    call: Call[Any]
    parents: tuple[NodeParent, ...] = ()
    name: str | None = None


class Flow(Generic[R]):
    """Calls with dependencies that are submitted as one workflow. Its value is the result of its last call or group."""

    def __init__(self, app: Rota, nodes: Sequence[FlowNode], ends: Sequence[int], shape: Shape | None = None) -> None:
        self._app = app
        self.nodes = tuple(nodes)
        self.ends = tuple(ends)
        self.shape = shape

    def __repr__(self) -> str:
        return f"<Flow of {len(self.nodes)} calls>"

    @overload
    def then(self, following: Step[R, R2], /) -> Flow[R2]: ...
    @overload
    def then(self, first: Step[R, R2], second: Step[R, R3], /) -> Flow[list[R2 | R3]]: ...
    @overload
    def then(self, first: Step[R, R2], second: Step[R, R2], /, *more: Step[R, R2]) -> Flow[list[R2]]: ...
    @overload
    def then(
        self, first: Step[R, Any], second: Step[R, Any], third: Step[R, Any], /, *more: Step[R, Any]
    ) -> Flow[list[Any]]: ...
    def then(self, *following: Any) -> Flow[Any]:
        """Chain: a task that takes the value of this flow, or a call or flow of its own, runs after its success.

        Several run side by side, and the value is the list of theirs.
        """
        return self._followed(following, Need.SUCCESS, self._value_taken)

    @overload
    def always(self, following: Step[Any, R2], /) -> Flow[R2]: ...
    @overload
    def always(self, first: Step[Any, R2], second: Step[Any, R3], /) -> Flow[list[R2 | R3]]: ...
    @overload
    def always(self, first: Step[Any, R2], second: Step[Any, R2], /, *more: Step[Any, R2]) -> Flow[list[R2]]: ...
    @overload
    def always(
        self, first: Step[Any, Any], second: Step[Any, Any], third: Step[Any, Any], /, *more: Step[Any, Any]
    ) -> Flow[list[Any]]: ...
    def always(self, *following: Any) -> Flow[Any]:
        """Run a task, call or flow after this one has ended in any way; a task gets its value, None where it failed.

        Several run side by side, and the value is the list of theirs.
        """
        return self._followed(following, Need.END, self._value_taken)

    def on_failure(self, handler: Step[Failure, Any]) -> Flow[R]:
        """Run a task, call or flow if this one fails; a task gets what failed, its error and its payload.

        The value of the flow stays the same.
        """
        if len(self.ends) > 1:
            _refuse("on_failure", "a group has many ends; call .then(…) or .always(…) first, .on_failure(…) after it")
        branch = self._followed([handler], Need.FAILURE, Takes.FAILURE)
        return Flow(self._app, branch.nodes, self.ends, self.shape)

    @property
    def _value_taken(self) -> Takes:
        return Takes.RESULT if self.shape is None else Takes.RESULTS

    def _followed(self, following: Sequence[Any], need: Need, takes: Takes) -> Flow[Any]:
        if not following:
            _refuse("then", "give a task, a call or a flow that is to follow")
        branches = [self._branch(one, takes) for one in following]
        joined = _side_by_side(self._app, self.nodes, branches, tuple(NodeParent(place, need) for place in self.ends))
        return joined if len(branches) > 1 else Flow(self._app, joined.nodes, joined.ends, branches[0].shape)

    def _branch(self, following: Any, takes: Takes) -> Flow[Any]:  # noqa: ANN401 - a task, a call or a flow
        if not hasattr(following, "taking"):
            branch = flow_of(following)
        else:
            if not following.takes_one_argument:
                _refuse("then", f"{following!r} cannot be called with one argument; give a call, as in task.call(…)")
            call = following.taking(takes)
            shape = self.shape if takes is Takes.RESULTS else None
            if shape is not None and not all(isinstance(one, int) for one in shape):
                call = _shaped(call, shape)
            branch = flow_of(call)
        self._require_app(branch)
        return branch

    def _require_app(self, other: Flow[Any]) -> None:
        if other._app is not self._app:
            _refuse("flow", "the calls belong to different apps; a workflow is stored in one place")

    def submit(
        self,
        *,
        name: str | None = None,
        policy: PolicyName = "finish",
        idempotency_key: str | None = None,
        tx: object = None,
    ) -> WorkflowHandle[R]:
        """Submit all calls as one workflow, in one transaction; with `tx`, in the transaction of that connection."""
        return submit_workflow(self._app, self._plan(name, policy, idempotency_key, tx), self._value(), tx)

    async def asubmit(
        self,
        *,
        name: str | None = None,
        policy: PolicyName = "finish",
        idempotency_key: str | None = None,
        tx: object = None,
    ) -> WorkflowHandle[R]:
        """Submit all calls as one workflow, in one transaction; with `tx`, in the transaction of that connection."""
        return await asubmit_workflow(self._app, self._plan(name, policy, idempotency_key, tx), self._value(), tx)

    def _plan(
        self, name: str | None, policy: PolicyName, key: str | None, tx: object
    ) -> Callable[[datetime], NewWorkflow]:
        if key is not None and tx is not None:
            _refuse("idempotency_key", "a workflow in a transaction of yours takes no key; leave it out")
        chosen = policy_of(policy)
        names = self.names
        title = names[self.ends[-1]] if name is None else name

        def plan(now: datetime) -> NewWorkflow:
            ids = self._app.fresh_ids(now, len(self.nodes) + 1)
            return plan_workflow(
                WorkflowId(ids[0]), title, chosen, key, list(zip(names, self.nodes, strict=True)), ids[1:], now
            )

        return plan

    @property
    def names(self) -> list[str]:
        """The names of the nodes: those of their tasks, numbered where a task comes several times."""
        counts = Counter(node.call.task.name for node in self.nodes)
        # A task may be called as another one is numbered.
        taken = {task for task, count in counts.items() if count == 1}
        numbers: Counter[str] = Counter()
        names = []
        for node in self.nodes:
            name = task = node.call.task.name
            while counts[task] > 1:
                numbers[task] += 1
                name = f"{task}-{numbers[task]}"
                if name not in taken:
                    break
            names.append(name)
        return names

    def _value(self) -> FlowValue:
        names = self.names
        decoders = tuple(self.nodes[place].call.decode for place in self.ends)
        return FlowValue(tuple(names[place] for place in self.ends), decoders, self.shape)


@dataclass(frozen=True, slots=True)
class FlowValue:
    """How the value of a flow is made of the results of its ends."""

    names: tuple[str, ...]
    decoders: tuple[Callable[[str], Any], ...]
    shape: Shape | None = None

    def of(self, results: Sequence[str | None]) -> Any:  # noqa: ANN401 - of any type
        """Decode the results of the ends, in order; None where there is none."""
        values = [decode("null" if text is None else text) for decode, text in zip(self.decoders, results, strict=True)]
        return values[0] if self.shape is None else folded(values, self.shape)


def folded(values: Sequence[Any], shape: Shape) -> list[Any]:
    """Fold a flat list into the shape of nested groups."""
    rest = iter(values)

    def fold(one: Shape) -> list[Any]:
        made: list[Any] = []
        for part in one:
            if isinstance(part, int):
                made += [next(rest) for _ in range(part)]
            else:
                made.append(fold(part))
        return made

    return fold(shape)


def plan_workflow(
    workflow_id: WorkflowId,
    name: str,
    policy: WorkflowPolicy,
    key: str | None,
    nodes: Sequence[tuple[str, FlowNode]],
    ids: Sequence[JobId],
    now: datetime,
) -> NewWorkflow:
    """Make the workflow of some named nodes, with its jobs; refuse options that nodes cannot have."""
    made = []
    for (node_name, node), job_id in zip(nodes, ids, strict=True):
        for option, remedy in _NOT_OF_NODES.items():
            if node.call.options.get(option) is not None:
                _refuse(option, f"a node of a workflow takes none; {remedy}")
        made.append(NewNode(node_name, node.call.job(job_id, now), node.parents))
    if key is not None:
        check_name("idempotency_key", key)
        hashes = [
            (one, canonical_request_hash(node.call.template(), run_at=node.call.options.get("run_at")), node.parents)
            for one, node in nodes
        ]
        own = IdempotencyKey(KEY_PREFIX + key, workflow_hash(name, policy, hashes))
        made[0] = replace(made[0], job=replace(made[0].job, idempotency=own))
    return planned(workflow_id, name, made, policy)


def policy_of(policy: str) -> WorkflowPolicy:
    try:
        return WorkflowPolicy(policy)
    except ValueError:
        known = ", ".join(repr(one.value) for one in WorkflowPolicy)
        _refuse("policy", f"{policy!r} is unknown; give one of {known}")


def flow_of(item: Any) -> Flow[Any]:  # noqa: ANN401 - a call or a flow
    """Return a call as a flow; a flow stays as it is."""
    if isinstance(item, Flow):
        return item
    if not hasattr(item, "payload") or not hasattr(item, "task"):
        _refuse("flow", f"{item!r} is neither a call nor a flow; give calls, as in task.call(…)")
    return Flow(item._app, [FlowNode(item)], [0])  # noqa: SLF001 - a call's own


def _moved(nodes: Sequence[FlowNode], offset: int, first: tuple[NodeParent, ...] = ()) -> list[FlowNode]:
    """Return nodes for a place further on; those that wait for none wait for `first`."""
    return [
        replace(
            node, parents=tuple(replace(one, position=(one.position or 0) + offset) for one in node.parents) or first
        )
        for node in nodes
    ]


def _side_by_side(
    app: Rota, before: Sequence[FlowNode], flows: Iterable[Flow[Any]], parents: tuple[NodeParent, ...] = ()
) -> Flow[Any]:
    """Join flows to a group; their first nodes wait for `parents`, which are among the nodes `before`."""
    nodes = list(before)
    ends: list[int] = []
    shape: Shape = []
    for flow in flows:
        ends += [place + len(nodes) for place in flow.ends]
        nodes += _moved(flow.nodes, len(nodes), parents)
        if flow.shape is not None:
            shape.append(flow.shape)
        elif shape and isinstance(shape[-1], int):
            shape[-1] += 1
        else:
            shape.append(1)
    return Flow(app, nodes, ends, shape)


def _shaped(call: Call[Any], shape: Shape) -> Call[Any]:
    text = json.dumps(shape, separators=(",", ":"))
    if len(text) > _LONGEST_SHAPE:
        _refuse("group", "too many groups within groups; give the inner groups a .then(…) of their own")
    meta = {**call.task.template.meta, SHAPE: text, TAKES: Takes.RESULTS.value}
    using: Any = call.task
    return type(call)(call._app, using.using(meta=meta), call.payload, call.decode, call.traceparent)  # noqa: SLF001


def _refuse(field: str, problem: str) -> NoReturn:
    raise InvalidRequest(f"{field}: {problem}", field=field)


if TYPE_CHECKING:
    Unsent: TypeAlias = Call[A] | Flow[A]
    #: What can follow in a chain: a task that takes the value before it, or a call or flow with arguments of its own.
    Step: TypeAlias = Taker[A, B] | Call[B] | Flow[B]
else:
    Unsent = Step = Any


@overload
def chain(first: Unsent[A], /) -> Flow[A]: ...
@overload
def chain(first: Unsent[A], second: Step[A, B], /) -> Flow[B]: ...
@overload
def chain(first: Unsent[A], second: Step[A, B], third: Step[B, C], /) -> Flow[C]: ...
@overload
def chain(first: Unsent[A], second: Step[A, B], third: Step[B, C], fourth: Step[C, D], /) -> Flow[D]: ...
@overload
def chain(
    first: Unsent[A], second: Step[A, B], third: Step[B, C], fourth: Step[C, D], fifth: Step[D, E], /
) -> Flow[E]: ...
@overload
def chain(
    first: Unsent[Any], second: Step[Any, Any], third: Step[Any, Any], fourth: Step[Any, Any], fifth: Step[Any, Any],
    /, *more: Step[Any, Any],
) -> Flow[Any]: ...  # fmt: skip
def chain(first: Any, /, *following: Any) -> Flow[Any]:
    """Chain calls: each runs after the success of the one before; a task that is given takes its result.

    With more than five, types are not checked; use `.then(…)` for that.
    """
    flow = flow_of(first)
    for one in following:
        flow = flow.then(one)
    return flow


@overload
def group(first: Unsent[A], second: Unsent[B], /) -> Flow[list[A | B]]: ...
@overload
def group(first: Unsent[A], second: Unsent[B], third: Unsent[C], /) -> Flow[list[A | B | C]]: ...
@overload
def group(*items: Unsent[A]) -> Flow[list[A]]: ...
@overload
def group(
    first: Unsent[Any], second: Unsent[Any], third: Unsent[Any], fourth: Unsent[Any], /, *more: Unsent[Any]
) -> Flow[list[Any]]: ...
def group(*items: Any) -> Flow[Any]:
    """Group calls and flows that run side by side; the value is the list of theirs, in this order."""
    if not items:
        _refuse("group", "give one or more calls")
    flows = [flow_of(item) for item in items]
    for flow in flows:
        flows[0]._require_app(flow)  # noqa: SLF001 - its own kind
    return _side_by_side(flows[0]._app, (), flows)  # noqa: SLF001 - as above


@overload
def map(task: Taker[T, R], items: Iterable[T]) -> Flow[list[R]]: ...  # noqa: A001 - the word that everybody looks for
@overload
def map(task: Taker[list[T], R], items: Iterable[T], *, chunk: int) -> Flow[list[R]]: ...  # noqa: A001
def map(task: Any, items: Any, *, chunk: Any = None) -> Flow[Any]:  # noqa: A001
    """Group one call of a task for each item; with `chunk`, one for each list of `chunk` items."""
    if not hasattr(task, "taking"):
        _refuse("task", f"{task!r} is not a task; give a function that is decorated with @app.task")
    if not isinstance(items, Iterable):
        _refuse("items", f"{items!r} will not do: give a list, or anything else that can be iterated over")
    listed = list(items)
    if chunk is not None:
        if not isinstance(chunk, int) or isinstance(chunk, bool) or chunk < 1:
            _refuse("chunk", f"{chunk!r} is not a number of items; give 1 or more")
        listed = [listed[start : start + chunk] for start in range(0, len(listed), chunk)]
    if not listed:
        _refuse("items", "there are none; a group has one or more calls")
    return group(*(task.call(item) for item in listed))

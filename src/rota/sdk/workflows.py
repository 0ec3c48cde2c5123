"""Workflows with named nodes: calls added one by one, with what they wait for, submitted as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar, overload

from rota.core.errors import InvalidRequest
from rota.core.graph import NewWorkflow, NodeParent, WorkflowId, check_name
from rota.core.submission import Need, Takes
from rota.sdk.flow import FlowNode, PolicyName, Taker, plan_workflow, policy_of
from rota.sdk.workflow_handle import WorkflowHandle, asubmit_workflow, submit_workflow

if TYPE_CHECKING:
    from rota.sdk.app import Rota
    from rota.sdk.task import Call

R = TypeVar("R")
T = TypeVar("T")


class WorkflowNode(Generic[R]):
    """A node of a workflow that is being built. Other nodes name it in `after`."""

    def __init__(self, workflow: Workflow, name: str, position: int) -> None:
        self.workflow = workflow
        self.name = name
        self.position = position

    @property
    def ended(self) -> Condition:
        """The condition that this node has ended, in any way; for `after`."""
        return Condition(self, Need.END)

    @property
    def failed(self) -> Condition:
        """The condition that this node has failed; for `after`."""
        return Condition(self, Need.FAILURE)

    def __repr__(self) -> str:
        return f"<WorkflowNode {self.name!r}>"


@dataclass(frozen=True, slots=True)
class Condition:
    """A node to wait for, and what is required of it."""

    node: WorkflowNode[Any]
    need: Need


After: TypeAlias = WorkflowNode[Any] | Condition | Sequence[WorkflowNode[Any] | Condition]


class Workflow:
    """A workflow that is being built: add nodes, then submit it.

    If a node fails, the policy `finish` runs what does not depend on it; `fail_fast` cancels the rest, except for nodes
    that are there for a failure or for any end.
    """

    def __init__(self, name: str, *, policy: PolicyName = "finish") -> None:
        check_name("name", name)
        self.name = name
        self.policy = policy_of(policy)
        self._nodes: list[FlowNode] = []
        self._names: dict[str, int] = {}

    @overload
    def add(self, name: str, call: Call[R], /, *, after: After = ()) -> WorkflowNode[R]: ...
    @overload
    def add(self, name: str, task: Taker[T, R], /, *, after: WorkflowNode[T]) -> WorkflowNode[R]: ...
    @overload
    def add(self, name: str, task: Taker[list[T], R], /, *, after: Sequence[WorkflowNode[T]]) -> WorkflowNode[R]: ...
    @overload
    def add(self, name: str, task: Taker[Any, R], /, *, after: Condition) -> WorkflowNode[R]: ...
    def add(self, name: str, call: Any, /, *, after: Any = ()) -> WorkflowNode[Any]:
        """Add a call, or a task that takes the result of the node before it, or the results of several.

        A task after `node.failed` gets what failed, its error and its payload.
        """
        conditions = _conditions(after)
        for one in conditions:
            if one.node.workflow is not self:
                _refuse("after", f"{one.node!r} is a node of another workflow")
        if name in self._names:
            _refuse("name", f"the name {name!r} is given to two nodes; give each its own")
        check_name("name", name)
        if hasattr(call, "taking"):
            call = _taking(call, conditions, is_list=not isinstance(after, WorkflowNode | Condition))
        elif not hasattr(call, "payload"):
            _refuse("call", f"{call!r} is neither a call nor a task; give a call, as in task.call(…)")
        if self._nodes and call._app is not self._nodes[0].call._app:  # noqa: SLF001 - a call's own
            _refuse("call", "the calls belong to different apps; a workflow is stored in one place")
        position = self._names[name] = len(self._nodes)
        parents = tuple(NodeParent(one.node.position, one.need) for one in conditions)
        self._nodes.append(FlowNode(call, parents, name))
        return WorkflowNode(self, name, position)

    def submit(self, *, idempotency_key: str | None = None, tx: object = None) -> WorkflowHandle[dict[str, Any]]:
        """Submit all nodes in one transaction; with `tx`, in the transaction of that connection.

        The value of the workflow is the results by node.
        """
        app, plan = self._plan(idempotency_key, tx)
        return submit_workflow(app, plan, None, tx)

    async def asubmit(self, *, idempotency_key: str | None = None, tx: object = None) -> WorkflowHandle[dict[str, Any]]:
        """Submit all nodes in one transaction; with `tx`, in the transaction of that connection."""
        app, plan = self._plan(idempotency_key, tx)
        return await asubmit_workflow(app, plan, None, tx)

    def _plan(self, key: str | None, tx: object) -> tuple[Rota, Any]:
        if not self._nodes:
            _refuse("nodes", "a workflow has at least one node; add one")
        if key is not None and tx is not None:
            _refuse("idempotency_key", "a workflow in a transaction of yours takes no key; leave it out")
        app = self._nodes[0].call._app  # noqa: SLF001 - a call's own
        nodes = [(node.name or "", node) for node in self._nodes]

        def plan(now: datetime) -> NewWorkflow:
            ids = app.fresh_ids(now, len(nodes) + 1)
            return plan_workflow(WorkflowId(ids[0]), self.name, self.policy, key, nodes, ids[1:], now)

        return app, plan

    def __repr__(self) -> str:
        return f"<Workflow {self.name!r} of {len(self._nodes)} nodes>"


def _conditions(after: Any) -> list[Condition]:  # noqa: ANN401 - what a user gave
    listed = list(after) if isinstance(after, Iterable) and not isinstance(after, str) else [after]
    made = []
    for one in listed:
        if not isinstance(one, WorkflowNode | Condition):
            _refuse("after", f"{one!r} is not a node; give what add(…) returned")
        made.append(one if isinstance(one, Condition) else Condition(one, Need.SUCCESS))
    return made


def _taking(task: Any, conditions: Sequence[Condition], *, is_list: bool) -> Any:  # noqa: ANN401 - a task, a call
    if not conditions:
        _refuse("after", f"{task!r} takes its argument from the node before it; name that in after=…, or give a call")
    if not task.takes_one_argument:
        _refuse("task", f"{task!r} cannot be called with one argument; give a call, as in task.call(…)")
    if all(one.need is Need.FAILURE for one in conditions):
        return task.taking(Takes.FAILURE)
    return task.taking(Takes.RESULTS if is_list else Takes.RESULT)


def _refuse(field: str, problem: str) -> NoReturn:
    raise InvalidRequest(f"{field}: {problem}", field=field)

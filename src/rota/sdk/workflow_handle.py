"""Handles of submitted workflows: state, progress, results by node, cancel, retry and skip."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from rota.core.errors import KeyReused, RotaError
from rota.core.graph import NewWorkflow, Node, StoredWorkflow, WorkflowId, WorkflowState
from rota.core.ids import to_text
from rota.core.lifecycle import FINISHED, State
from rota.core.queue import queue_full
from rota.core.settlement import Reason
from rota.ports.caller_tx import run_sync
from rota.ports.client import Actor, NodeResult
from rota.ports.clock import wall_clock
from rota.ports.store import Receipt
from rota.sdk.handle import Handle, ResultTimeout, end_of, until_available, warn_in_handler
from rota.sdk.transactions import require_async, require_blocking, submit_in

if TYPE_CHECKING:
    from rota.sdk.app import Rota

R_co = TypeVar("R_co", covariant=True)
#: How long to wait before a workflow is read again: at first, as a share of the time waited so far, and at most.
_SHORTEST_PAUSE: Final = 0.02
_PAUSE_SHARE: Final = 1 / 4
_LONGEST_PAUSE: Final = 1.0
#: Nodes that failed because of others are named only if there is no other.
_CONSEQUENCES: Final = frozenset({Reason.DEPENDENCY_FAILED, Reason.WORKFLOW_FAILED})
_GOOD_ENDS: Final = frozenset({Reason.SKIPPED, Reason.NOT_NEEDED})
_PYTHON: Final = Actor("python", surface="sdk")
Plan = Callable[[datetime], NewWorkflow]


class ValueOfResults(Protocol):
    """How the value of a workflow is made of the results of some of its nodes."""

    @property
    def names(self) -> Sequence[str]: ...

    def of(self, results: Sequence[str | None]) -> Any:  # noqa: ANN401 - of any type
        """Make the value of the results of these nodes, in order."""
        ...


class WorkflowFailed(RotaError):
    """A workflow ended without its result; `failures` are the nodes that failed."""

    def __init__(self, workflow: StoredWorkflow, failures: Sequence[NodeResult]) -> None:
        causes = [one for one in failures if one.reason not in _CONSEQUENCES] or list(failures)
        shown = ", ".join(map(_cause, causes[:3]))
        more = f", and {len(causes) - 3} more" if len(causes) > 3 else ""  # noqa: PLR2004 - as many are shown
        super().__init__(f"workflow {to_text(workflow.id)} ({workflow.name}) is {workflow.state}: {shown}{more}")
        self.workflow = workflow
        self.failures = failures


def _cause(one: NodeResult) -> str:
    error = f": {one.error.kind}: {one.error.message}" if one.error is not None else ""
    return f"node {one.name!r} is {one.state}{f' ({one.reason})' if one.reason else ''}{error}"


class WorkflowHandle(Generic[R_co]):
    """A submitted workflow. `result()` waits for its value; in async code `await handle` does."""

    def __init__(self, app: Rota, workflow_id: WorkflowId, value: ValueOfResults | None = None) -> None:
        self._app = app
        self._workflow_id = workflow_id
        self._value = value

    @property
    def id(self) -> str:
        return to_text(self._workflow_id)

    @property
    def workflow(self) -> StoredWorkflow:
        """The stored workflow as it is now."""
        return self._app.portal.call(self._get())

    @property
    def state(self) -> WorkflowState:
        return self.workflow.state

    @property
    def progress(self) -> Mapping[str, int]:
        """How many nodes are in each state."""
        return self.workflow.progress

    def nodes(self) -> list[Node]:
        """Return the nodes of the graph with the states of their jobs, by position."""
        return self._app.portal.call(self._nodes())

    def job(self, node: str) -> Handle[Any]:
        """Return the handle of the current job of a node."""
        for one in self.nodes():
            if one.name == node:
                return Handle(self._app, one.job_id, json.loads)
        raise RotaError(f"workflow {self.id} has no node {node!r}")

    def results(self) -> dict[str, Any]:
        """Return the results by node, of those that have one by now."""
        return self._app.portal.call(self._results())

    async def aresults(self) -> dict[str, Any]:
        """Return the results by node, of those that have one by now."""
        return await self._app.portal.acall(self._results())

    def wait(self, timeout: timedelta | float | str | None = None) -> WorkflowState:
        """Wait until all nodes have ended, at most for `timeout`, and give the state."""
        warn_in_handler("wait()")
        return self._app.portal.call(self._wait(timeout)).state

    async def await_end(self, timeout: timedelta | float | str | None = None) -> WorkflowState:  # noqa: ASYNC109
        """Wait until all nodes have ended, at most for `timeout`, and give the state."""
        return (await self._app.portal.acall(self._wait(timeout))).state

    def result(self, timeout: timedelta | float | str | None = None) -> R_co:
        """Wait for the value of the workflow, at most for `timeout`."""
        warn_in_handler("result()")
        value: R_co = self._app.portal.call(self._result(timeout))
        return value

    async def aresult(self, timeout: timedelta | float | str | None = None) -> R_co:  # noqa: ASYNC109 - the public name
        """Wait for the value of the workflow, at most for `timeout`."""
        value: R_co = await self._app.portal.acall(self._result(timeout))
        return value

    def __await__(self) -> Generator[Any, None, R_co]:
        return self.aresult().__await__()

    def cancel(self) -> StoredWorkflow:
        """Cancel all jobs that wait, and ask those that run to stop."""
        return self._app.portal.call(self._act("cancel_workflow"))

    async def acancel(self) -> StoredWorkflow:
        """Cancel all jobs that wait, and ask those that run to stop."""
        return await self._app.portal.acall(self._act("cancel_workflow"))

    def retry(self, node: str | None = None) -> StoredWorkflow:
        """Run the failed nodes again, or one node; and all nodes after them."""
        return self._app.portal.call(self._act("retry_workflow", node=node))

    async def aretry(self, node: str | None = None) -> StoredWorkflow:
        """Run the failed nodes again, or one node; and all nodes after them."""
        return await self._app.portal.acall(self._act("retry_workflow", node=node))

    def skip(self, node: str) -> StoredWorkflow:
        """Skip a node: the nodes after it go on as if it had succeeded, without a result."""
        return self._app.portal.call(self._skip(node))

    async def askip(self, node: str) -> StoredWorkflow:
        """Skip a node: the nodes after it go on as if it had succeeded, without a result."""
        return await self._app.portal.acall(self._skip(node))

    def __repr__(self) -> str:
        return f"<WorkflowHandle of {self.id}>"

    async def _get(self) -> StoredWorkflow:
        return await (await self._app.control()).workflow(self._workflow_id)

    async def _nodes(self) -> list[Node]:
        nodes = await (await self._app.control()).workflow_nodes(self._workflow_id)
        return [one for one in nodes if one.is_current]

    async def _results(self) -> dict[str, Any]:
        results = await (await self._app.control()).workflow_results(self._workflow_id)
        return {one.name: json.loads(one.result or "null") for one in results if one.state is State.COMPLETED}

    async def _wait(self, timeout: timedelta | float | str | None) -> StoredWorkflow:  # noqa: ASYNC109 - passed on
        control = await self._app.control()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        end = end_of(timeout)
        while True:
            workflow = await until_available(partial(control.workflow, self._workflow_id), end)
            if workflow.state is not WorkflowState.RUNNING:
                return workflow
            now = loop.time()
            if end is not None and now >= end:
                raise ResultTimeout(f"workflow {self.id} is still running after {timeout}; it is not cancelled")
            pause = min(max((now - begun) * _PAUSE_SHARE, _SHORTEST_PAUSE), _LONGEST_PAUSE)
            await asyncio.sleep(pause if end is None else min(pause, end - now))

    async def _result(self, timeout: timedelta | float | str | None) -> Any:  # noqa: ANN401, ASYNC109 - of any type
        names = None if self._value is None else self._value.names
        workflow = await self._wait(timeout)
        results = {one.name: one for one in await (await self._app.control()).workflow_results(self._workflow_id)}
        failures = [one for one in results.values() if _is_failure(one)]
        names_to_return = list(results) if names is None else names
        if any(_is_failure(results[name]) for name in names_to_return):
            raise WorkflowFailed(workflow, failures)
        if self._value is None:
            return {one.name: json.loads(one.result or "null") for one in results.values()}
        return self._value.of([results[name].result for name in names_to_return])

    async def _act(self, verb: str, **arguments: object) -> StoredWorkflow:
        made: StoredWorkflow = await getattr(await self._app.control(), verb)(self._workflow_id, _PYTHON, **arguments)
        return made

    async def _skip(self, node: str) -> StoredWorkflow:
        return await (await self._app.control()).skip_node(self._workflow_id, node, _PYTHON)


def _is_failure(one: NodeResult) -> bool:
    return one.state is not None and one.state in FINISHED - {State.COMPLETED} and one.reason not in _GOOD_ENDS


def submit_workflow(app: Rota, plan: Plan, value: ValueOfResults | None, tx: object) -> WorkflowHandle[Any]:
    """Submit a workflow from code that is not async."""
    if tx is None:
        return app.portal.call(_submit(app, plan, value))
    require_blocking(tx)
    return run_sync(_submit_in(app, plan, value, tx))


async def asubmit_workflow(app: Rota, plan: Plan, value: ValueOfResults | None, tx: object) -> WorkflowHandle[Any]:
    """Submit a workflow from any loop."""
    if tx is None:
        return await app.portal.acall(_submit(app, plan, value))
    require_async(tx)
    return await _submit_in(app, plan, value, tx)


async def _submit(app: Rota, plan: Plan, value: ValueOfResults | None) -> WorkflowHandle[Any]:
    receipt = await (await app.control()).submit_workflow(plan(wall_clock()))
    return WorkflowHandle(app, receipt.workflow_id, value)


async def _submit_in(app: Rota, plan: Plan, value: ValueOfResults | None, tx: object) -> WorkflowHandle[Any]:
    made: list[NewWorkflow] = []

    def make(now: datetime) -> NewWorkflow:
        made.append(plan(now))
        return made[-1]

    answers = await submit_in(app.url, tx, make, app.queue_bound, app.cipher)
    for job, answer in zip(made[-1].jobs, answers, strict=True):
        if answer.receipt is Receipt.QUEUE_FULL:
            raise queue_full(job.queue)
        if answer.receipt is not Receipt.CREATED:
            raise KeyReused("idempotency_key: a job of this workflow was submitted before", field="idempotency_key")
    return WorkflowHandle(app, made[-1].id, value)

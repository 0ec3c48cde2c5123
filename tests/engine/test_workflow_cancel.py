"""Cancelling a workflow, while workers claim after every write of the cancellation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from builders import DAY, ManualClock, fresh_id, new_job
from conformance.stores.adapters import SHARED, Adapter, opened
from rota.brokers.in_store import InStoreBroker
from rota.core.graph import NewNode, NodeParent, WorkflowId, WorkflowState, planned
from rota.core.job import Job
from rota.core.lease import Claim, WorkerId
from rota.core.submission import Need
from rota.engine import Engine
from rota.ports.client import Actor
from rota.ports.store import Store


class WatchedStore:
    """A store at which a worker claims all that is due after each settlement."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.claimed: list[Job] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any verb
        return getattr(self._store, name)

    async def settle(self, *arguments: Any, **options: Any) -> Sequence[Any]:  # noqa: ANN401 - the verb's
        done = await self._store.settle(*arguments, **options)
        self.claimed += await self._store.claim(Claim(WorkerId("ada", "boot"), 100))
        return done


@pytest.mark.parametrize("adapter", SHARED, ids=lambda adapter: adapter.name)
async def test_nothing_of_a_cancelled_workflow_starts_while_it_is_being_cancelled(
    adapter: Adapter, tmp_path: Path
) -> None:
    """A job that is there for a failure, or for any end, became due by the cancellation of the job before it."""
    clock = ManualClock()
    async with opened(adapter, tmp_path, clock) as store:
        watched: Any = WatchedStore(store)
        engine = Engine(watched, InStoreBroker(store), clock=clock)
        nodes = [
            NewNode("undo", new_job("undo"), (NodeParent(2, Need.FAILURE),)),
            NewNode("tidy", new_job("tidy"), (NodeParent(2, Need.END), NodeParent(0, Need.END))),
            NewNode("a", new_job("a", run_at=clock() + DAY)),
            NewNode("b", new_job("b"), (NodeParent(2),)),
        ]
        made = planned(WorkflowId(fresh_id()), "etl", nodes)
        await engine.submit_workflow(made)
        ended = await engine.cancel_workflow(made.id, Actor("olga"))
        assert [job.type for job in watched.claimed] == []
        assert ended.state is WorkflowState.CANCELLED
        assert dict(ended.progress) == {"cancelled": 4}

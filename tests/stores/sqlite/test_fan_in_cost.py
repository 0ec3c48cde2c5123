"""The cost of a fan-in: each end of a part costs the same, however many parts there are."""

from __future__ import annotations

from collections.abc import Iterable

from builders import BASE, at, claim, fresh_id, new_job, new_jobs
from rota.core.decision import DecisionInputs, decide
from rota.core.graph import NewNode, NodeParent, WorkflowId, planned
from rota.core.outcome import Succeeded
from rota.stores.rows import Row
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import Parameters, StandardConnection


class CountingConnection(StandardConnection):
    """Counts statements and the rows that they return or change."""

    statements = 0
    touched = 0

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        found = super().rows(sql, parameters)
        type(self).statements += 1
        type(self).touched += len(found)
        return found

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        changed = super().run(sql, parameters)
        type(self).statements += 1
        type(self).touched += max(changed, 0)
        return changed

    def many(self, sql: str, parameters: Iterable[Parameters]) -> int:
        changed = super().many(sql, parameters)
        type(self).statements += 1
        type(self).touched += max(changed, 0)
        return changed


async def cost_of_one_end(size: int) -> tuple[int, int]:
    """Settle one part of a group with a fan-in; give the statements and the rows that it took."""
    store = await SqliteStore.open(":memory:", connect=CountingConnection)
    nodes = [NewNode(f"part-{place}", job) for place, job in enumerate(new_jobs(size, "part"))]
    total = NewNode("total", new_job("total"), tuple(map(NodeParent, range(size))))
    await store.put_workflow(planned(WorkflowId(fresh_id()), "sums", [*nodes, total]), now=BASE)
    (held,) = await store.claim(claim(limit=1), now=at(1))
    before = CountingConnection.statements, CountingConnection.touched
    assert await store.settle([decide(held, Succeeded("1"), DecisionInputs(at(2)))], now=at(2)) == [held.id]
    after = CountingConnection.statements, CountingConnection.touched
    await store.close()
    return after[0] - before[0], after[1] - before[1]


async def test_the_end_of_a_part_reads_and_writes_no_other_part() -> None:
    few, many = await cost_of_one_end(10), await cost_of_one_end(9_999)
    assert few == many
    assert few[0] <= 12
    assert few[1] <= 10

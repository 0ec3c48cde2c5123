from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import fresh_id, new_job
from rota.core.errors import InvalidRequest
from rota.core.graph import (
    DEEPEST,
    MOST_NODES,
    NewNode,
    NodeCount,
    NodeParent,
    WorkflowId,
    WorkflowState,
    after_failures,
    below,
    parents_of_text,
    parents_text,
    planned,
    state_of,
)
from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.core.settlement import Reason
from rota.core.submission import Need


def node(name: str, *parents: int) -> NewNode:
    return NewNode(name, new_job(name), tuple(map(NodeParent, parents)))


def plan(*nodes: NewNode, name: str = "w") -> None:
    planned(WorkflowId(fresh_id()), name, nodes)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([], "at least one node"),
        ([node("a"), node("a")], "given to 2 nodes"),
        ([node("a", 0)], "in a circle: a"),
        ([node("a", 2), node("b", 0), node("c", 1)], "in a circle: a, b, c"),
        ([node("a"), node("b", 7)], "not there"),
        ([node("a"), node("b", 0, 0)], "twice"),
        ([node("")], "1 to 200"),
        ([node("a\nb")], "printable"),
    ],
)
def test_a_graph_that_cannot_run_is_refused_and_the_fault_is_named(nodes: list[NewNode], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        plan(*nodes)


def test_graphs_above_the_limits_are_refused() -> None:
    job = new_job()
    many = [NewNode(str(place), job) for place in range(MOST_NODES + 1)]
    with pytest.raises(InvalidRequest, match="at most 10,000"):
        plan(*many)
    deep = [NewNode(str(place), job, (NodeParent(place - 1),) if place else ()) for place in range(DEEPEST + 1)]
    plan(*deep[:-1])
    with pytest.raises(InvalidRequest, match="1,001 nodes"):
        plan(*deep)
    wide = [NewNode(str(place), job, tuple(map(NodeParent, range(400))) if place > 400 else ()) for place in range(700)]
    with pytest.raises(InvalidRequest, match="at most 100,000"):
        plan(*wide)


def test_jobs_get_the_ids_of_the_jobs_before_them() -> None:
    nodes = [
        node("a"),
        node("b", 0),
        NewNode("c", new_job(), (NodeParent(1, Need.END), NodeParent(None, job_id=JobId(9)))),
    ]
    made = planned(WorkflowId(1), "w", nodes)
    ids = [one.id for one in made.jobs]
    assert [[(wait.on, wait.need) for wait in job.after] for job in made.jobs] == [
        [],
        [(ids[0], Need.SUCCESS)],
        [(ids[1], Need.END), (9, Need.SUCCESS)],
    ]


def test_what_comes_after_a_failure_is_told_from_the_rest() -> None:
    parents = [(), (NodeParent(0),), (NodeParent(1, Need.FAILURE),), (NodeParent(2),), (NodeParent(0, Need.END),)]
    assert after_failures(parents) == {2, 3, 4}
    assert below([1], parents) == {1, 2, 3}


@given(
    st.lists(
        st.tuples(st.one_of(st.none(), st.integers(0, 9_999)), st.sampled_from(Need), st.integers(0, 2**62)), max_size=5
    )
)
def test_dependencies_are_read_as_they_were_written(rows: list[tuple[int | None, Need, int]]) -> None:
    parents = tuple(NodeParent(place, need, JobId(number) if place is None else None) for place, need, number in rows)
    assert parents_of_text(parents_text(parents)) == parents


def count(state: State | None, reason: Reason | None = None, *, skipped: bool = False) -> NodeCount:
    return NodeCount(state, reason, skipped, 1)


DONE = count(State.COMPLETED)


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ([DONE, count(State.BLOCKED)], WorkflowState.RUNNING),
        ([count(State.DEAD, Reason.EXHAUSTED), count(State.RUNNING)], WorkflowState.RUNNING),
        ([DONE, count(State.DEAD, Reason.EXHAUSTED)], WorkflowState.FAILED),
        ([DONE, count(State.DEAD, Reason.EXHAUSTED, skipped=True)], WorkflowState.COMPLETED),
        ([count(State.CANCELLED, Reason.EXPIRED)], WorkflowState.FAILED),
        ([count(State.CANCELLED, Reason.DEPENDENCY_FAILED)], WorkflowState.FAILED),
        ([count(State.CANCELLED, Reason.CANCEL_REQUESTED)], WorkflowState.CANCELLED),
        (
            [count(State.CANCELLED, Reason.CANCEL_REQUESTED), count(State.CANCELLED, Reason.DEPENDENCY_FAILED)],
            WorkflowState.CANCELLED,
        ),
        (
            [DONE, count(State.CANCELLED, Reason.NOT_NEEDED), count(State.CANCELLED, Reason.SKIPPED)],
            WorkflowState.COMPLETED,
        ),
        ([DONE, count(None)], WorkflowState.COMPLETED),
    ],
)
def test_the_state_of_a_workflow_follows_from_its_jobs(counts: list[NodeCount], state: WorkflowState) -> None:
    assert state_of(counts) is state

"""Workflows on every store: stored as a whole, followed by their states, run again, and pruned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from builders import ADA, BASE, DAY, HOUR, after, at, claim, entry, failure, fresh_id, key, new_job, new_jobs
from conformance.stores.transitions import begin, call_off, complete, end, kill, look, state
from rota.core.decision import expire
from rota.core.graph import (
    NewNode,
    NewWorkflow,
    Node,
    NodeParent,
    Rerun,
    WorkflowId,
    WorkflowPolicy,
    WorkflowState,
    planned,
)
from rota.core.ids import JobId
from rota.core.lifecycle import Event, State
from rota.core.outcome import Succeeded
from rota.core.queue import Queue
from rota.core.settlement import Reason
from rota.core.submission import Need, NewJob, Template
from rota.ports.store import JobQuery, Receipt, Retention, Store

FAIL_FAST = WorkflowPolicy.FAIL_FAST
DAYS_2 = timedelta(days=2)


def node(name: str, *parents: int | NodeParent, **fields: object) -> NewNode:
    """Make a node that waits for the nodes at some positions."""
    waits = tuple(one if isinstance(one, NodeParent) else NodeParent(one) for one in parents)
    return NewNode(name, new_job(name, **fields), waits)


def workflow(*nodes: NewNode, policy: WorkflowPolicy = WorkflowPolicy.FINISH, name: str = "etl") -> NewWorkflow:
    return planned(WorkflowId(fresh_id()), name, nodes, policy)


async def stored(store: Store, made: NewWorkflow) -> Sequence[NewJob]:
    answers = await store.put_workflow(made, now=BASE)
    assert {one.receipt for one in answers} == {Receipt.CREATED}
    return made.jobs


async def state_of(store: Store, made: NewWorkflow) -> WorkflowState:
    (found,) = await store.workflows([made.id])
    return found.state


async def states(store: Store, jobs: Sequence[NewJob]) -> list[str]:
    return [(await look(store, job)).state.value for job in jobs]


async def test_a_workflow_is_stored_with_its_jobs_and_its_graph(store: Store) -> None:
    made = workflow(node("extract"), node("load", 0), node("report", 0, NodeParent(1, Need.END)))
    answers = await store.put_workflow(made, now=BASE)
    assert [one.state for one in answers] == [State.PENDING, State.BLOCKED, State.BLOCKED]
    (found,) = await store.workflows([made.id])
    assert (found.name, found.policy, found.node_count, found.created_at) == ("etl", WorkflowPolicy.FINISH, 3, BASE)
    assert (found.state, dict(found.progress)) == (WorkflowState.RUNNING, {"pending": 1, "blocked": 2})
    shown = await store.nodes(made.id)
    assert [(one.position, one.name, one.job_id, one.parents) for one in shown] == [
        (place, one.name, one.job.id, one.parents) for place, one in enumerate(made.nodes)
    ]
    assert [(one.type, one.queue, one.state) for one in shown] == [
        ("extract", "default", State.PENDING),
        ("load", "default", State.BLOCKED),
        ("report", "default", State.BLOCKED),
    ]


async def test_a_workflow_follows_the_states_of_its_jobs_to_its_end(store: Store) -> None:
    made = workflow(node("extract"), node("load", 0))
    extract, load = await stored(store, made)
    held = await begin(store, extract)
    (running,) = await store.workflows([made.id])
    assert dict(running.progress) == {"running": 1, "blocked": 1}
    await end(store, held, Succeeded("1"))
    assert await state_of(store, made) is WorkflowState.RUNNING
    await complete(store, load)
    (ended,) = await store.workflows([made.id])
    assert (ended.state, dict(ended.progress)) == (WorkflowState.COMPLETED, {"completed": 2})
    assert [one.attempts for one in await store.nodes(made.id)] == [1, 1]


async def test_nothing_is_stored_if_one_job_is_refused(store: Store) -> None:
    taken = new_job()
    await store.insert([taken], now=BASE)
    made = workflow(node("a"), NewNode("b", new_job(id=taken.id), (NodeParent(0),)), node("c", 1))
    answers = await store.put_workflow(made, entry=entry(), now=BASE)
    assert answers[1].receipt is Receipt.ID_TAKEN
    assert await store.workflows([made.id]) == []
    assert [job.id for job in await store.find(JobQuery())] == [taken.id]
    assert await store.ledger() == []


async def test_nothing_is_stored_if_a_queue_is_full(store: Store) -> None:
    await store.put_queue(Queue("default", max_depth=2))
    made = workflow(*(node(f"part-{place}") for place in range(3)))
    answers = await store.put_workflow(made, now=BASE)
    assert Receipt.QUEUE_FULL in {one.receipt for one in answers}
    assert (await store.workflows(), await store.find(JobQuery())) == ([], [])


async def test_a_key_that_was_used_before_stores_nothing_and_names_the_first_job(store: Store) -> None:
    first = workflow(node("a", idempotency=key("k")), node("b", 0))
    jobs = await stored(store, first)
    again = workflow(node("a", idempotency=key("k")), node("b", 0))
    answers = await store.put_workflow(again, now=at(1))
    assert (answers[0].receipt, answers[0].job_id) == (Receipt.REPLAYED, jobs[0].id)
    assert [one.id for one in await store.workflows()] == [first.id]
    (member,) = await store.nodes_of_jobs([answers[0].job_id])
    assert (member.workflow_id, member.name) == (first.id, "a")


async def test_the_ledgers_entry_is_written_with_the_workflow(store: Store) -> None:
    await store.put_workflow(workflow(node("a")), entry=entry("submit", "w"), now=BASE)
    assert [(one.action, one.target) for one in await store.ledger()] == [("submit", "w")]


async def test_workflows_are_listed_newest_first_page_by_page(store: Store) -> None:
    made = [workflow(node("a"), name=f"w{number}") for number in range(5)]
    for one in made:
        await store.put_workflow(one, now=BASE)
    first = await store.workflows(limit=2)
    assert [one.name for one in first] == ["w4", "w3"]
    assert [one.name for one in await store.workflows(before=first[-1].id, limit=10)] == ["w2", "w1", "w0"]


async def test_jobs_know_their_nodes_and_others_have_none(store: Store) -> None:
    made = workflow(node("a"), node("b", 0))
    jobs = await stored(store, made)
    alone = new_job()
    await store.insert([alone], now=BASE)
    found = await store.nodes_of_jobs([jobs[1].id, alone.id])
    assert [(one.workflow_id, one.name, one.position) for one in found] == [(made.id, "b", 1)]


async def test_a_fan_in_of_many_runs_once_after_the_last(store: Store) -> None:
    made = workflow(*(node(f"part-{place}") for place in range(50)), node("sum", *range(50)))
    *parts, total = await stored(store, made)
    await complete(store, *parts[:49])
    assert await state(store, total) is State.BLOCKED
    await complete(store, parts[49])
    assert await state(store, total) is State.PENDING


async def test_what_does_not_depend_on_a_failure_is_finished(store: Store) -> None:
    made = workflow(node("a"), node("b"), node("after-a", 0), node("after-b", 1))
    a, b, _, after_b = await stored(store, made)
    await kill(store, a)
    assert await state_of(store, made) is WorkflowState.RUNNING
    await complete(store, b, after_b)
    (ended,) = await store.workflows([made.id])
    assert (ended.state, dict(ended.progress)) == (
        WorkflowState.FAILED,
        {"dead": 1, "completed": 2, "cancelled": 1},
    )


async def test_a_workflow_that_fails_fast_cancels_the_rest(store: Store) -> None:
    made = workflow(node("a"), node("b"), node("c"), node("d", 1), policy=FAIL_FAST)
    a, b, c, d = await stored(store, made)
    running = await begin(store, b)
    await kill(store, a, now=at(2))
    assert [(await look(store, one)).reason for one in (c, d)] == [Reason.WORKFLOW_FAILED, Reason.WORKFLOW_FAILED]
    assert (await look(store, b)).cancel_requested_at == at(2)
    assert await store.claim(claim(), now=at(3)) == []
    await end(store, running, Succeeded(), at(3))
    assert await state_of(store, made) is WorkflowState.FAILED


async def test_a_workflow_that_fails_fast_still_runs_what_is_there_for_a_failure(store: Store) -> None:
    made = workflow(
        node("charge"),
        node("ship"),
        node("refund", NodeParent(0, Need.FAILURE)),
        node("tell", 2),
        node("clean", NodeParent(1, Need.END)),
        policy=FAIL_FAST,
    )
    charge, ship, refund, tell, clean = await stored(store, made)
    await kill(store, charge)
    assert await states(store, [ship, refund, tell, clean]) == ["cancelled", "pending", "blocked", "pending"]
    await complete(store, refund, tell, clean)
    assert await state_of(store, made) is WorkflowState.FAILED


async def test_jobs_outside_the_workflow_do_not_fail_fast(store: Store) -> None:
    made = workflow(node("a"), node("b"), policy=FAIL_FAST)
    other = workflow(node("a"), node("b"), policy=FAIL_FAST)
    a, _ = await stored(store, made)
    others = await stored(store, other)
    alone = new_job()
    await store.insert([alone], now=BASE)
    await kill(store, a)
    assert await states(store, [*others, alone]) == ["pending"] * 3


async def test_an_expired_job_fails_its_workflow_fast(store: Store) -> None:
    made = workflow(node("a", expires_at=at(5)), node("b", run_at=at(100)), policy=FAIL_FAST)
    a, b = await stored(store, made)
    (late,) = await store.expired(10, now=at(6))
    assert late.id == a.id
    await store.settle([expire(late)], now=at(6))
    assert (await look(store, b)).reason is Reason.WORKFLOW_FAILED
    assert await state_of(store, made) is WorkflowState.FAILED


async def test_a_cancelled_job_does_not_fail_its_workflow_fast(store: Store) -> None:
    made = workflow(node("a"), node("b"), policy=FAIL_FAST)
    a, b = await stored(store, made)
    await call_off(store, a)
    assert await state(store, b) is State.PENDING
    await complete(store, b)
    assert await state_of(store, made) is WorkflowState.CANCELLED


async def test_a_failed_dependency_outside_fails_a_workflow_fast(store: Store) -> None:
    outside = new_job()
    await store.insert([outside], now=BASE)
    made = workflow(node("a", NodeParent(None, Need.SUCCESS, outside.id)), node("b"), policy=FAIL_FAST)
    a, b = await stored(store, made)
    await kill(store, outside)
    assert [(await look(store, one)).reason for one in (a, b)] == [Reason.DEPENDENCY_FAILED, Reason.WORKFLOW_FAILED]


@pytest.mark.parametrize("generations", [1, 3])
async def test_a_job_whose_dependency_failed_has_its_follow_up_made_once(store: Store, generations: int) -> None:
    parent = new_job()
    family = [parent]
    for _ in range(generations):
        family.append(new_job("child", after=after(family[-1]), on_failure=Template("alarm", queue="alarms")))
    await store.insert(family, now=BASE)
    await kill(store, parent, now=at(4))
    alarms = await store.find(JobQuery(types=("alarm",)))
    assert sorted((one.parent_id, one.state, one.queue, one.created_at) for one in alarms) == [
        (one.id, State.PENDING, "alarms", at(4)) for one in family[1:]
    ]


async def test_a_job_that_comes_after_its_parent_has_failed_has_its_follow_up_made(store: Store) -> None:
    parent = new_job()
    await store.insert([parent], now=BASE)
    await kill(store, parent)
    child = new_job(after=after(parent), on_failure=Template("alarm"))
    (answer,) = await store.insert([child], now=at(1))
    assert answer.state is State.CANCELLED
    assert [one.parent_id for one in await store.find(JobQuery(types=("alarm",)))] == [child.id]


async def test_a_job_that_was_not_needed_has_no_follow_up(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent, need=Need.FAILURE), on_failure=Template("alarm"))
    await store.insert([parent, child], now=BASE)
    await complete(store, parent)
    assert (await look(store, child)).reason is Reason.NOT_NEEDED
    assert await store.find(JobQuery(types=("alarm",))) == []


async def test_a_skipped_job_never_runs_and_counts_as_success(store: Store) -> None:
    made = workflow(node("a"), node("b", 0), node("undo", NodeParent(0, Need.FAILURE)))
    a, b, undo = await stored(store, made)
    skipped = (await look(store, a)).settled(Event.CANCEL, reason=Reason.SKIPPED)
    assert await store.settle([skipped], now=at(1)) == [a.id]
    assert await states(store, [a, b, undo]) == ["cancelled", "pending", "cancelled"]
    assert (await look(store, undo)).reason is Reason.NOT_NEEDED
    assert [job.id for job in await store.claim(claim(), now=at(2))] == [b.id]
    late = new_job(after=after(a))
    (answer,) = await store.insert([late], now=at(3))
    assert answer.state is State.PENDING
    await end(store, await look(store, b), Succeeded(), at(3))
    (ended,) = await store.workflows([made.id])
    assert (ended.state, dict(ended.progress)) == (
        WorkflowState.COMPLETED,
        {"skipped": 1, "completed": 1, "not_needed": 1},
    )


def again(made: NewWorkflow, *positions: int, skipped: tuple[int, ...] = ()) -> Rerun:
    """Let nodes run again: with new ids, and dependencies on the new jobs where there are some."""
    new = {place: JobId(fresh_id()) for place in positions}
    old = [one.job.id for one in made.nodes]
    jobs = [
        replace(
            made.nodes[place].job,
            id=new[place],
            after=tuple(replace(wait, on=new.get(old.index(wait.on), wait.on)) for wait in made.nodes[place].job.after),
        )
        for place in positions
    ]
    nodes = tuple(_as_stored(made, place, job.id) for place, job in zip(positions, jobs, strict=True))
    return Rerun(made.id, nodes, jobs, tuple(old[place] for place in positions), skipped)


def _as_stored(made: NewWorkflow, place: int, job_id: JobId) -> Node:
    one = made.nodes[place]
    return Node(
        made.id,
        place,
        one.name,
        job_id,
        one.parents,
        runs_after_failure=False,
        replaced_by=None,
        is_skipped=False,
        state=None,
        reason=None,
    )


async def test_nodes_run_again_with_new_jobs_and_the_old_ones_stay(store: Store) -> None:
    made = workflow(node("a"), node("b", 0), node("c", 1))
    a, b, c = await stored(store, made)
    await complete(store, a)
    await kill(store, b)
    rerun = again(made, 1, 2)
    assert await store.rerun(rerun, entry=entry("retry", "w"), now=at(5))
    nodes = await store.nodes(made.id)
    assert [(one.name, one.job_id, one.replaced_by, one.state) for one in nodes] == [
        ("a", a.id, None, State.COMPLETED),
        ("b", b.id, rerun.jobs[0].id, State.DEAD),
        ("b", rerun.jobs[0].id, None, State.PENDING),
        ("c", c.id, rerun.jobs[1].id, State.CANCELLED),
        ("c", rerun.jobs[1].id, None, State.BLOCKED),
    ]
    (running,) = await store.workflows([made.id])
    assert dict(running.progress) == {"completed": 1, "pending": 1, "blocked": 1}
    await complete(store, *rerun.jobs, now=at(6))
    assert await state_of(store, made) is WorkflowState.COMPLETED
    assert [one.action for one in await store.ledger()] == ["retry"]


async def test_old_jobs_that_wait_are_replaced_and_running_ones_are_asked_to_stop(store: Store) -> None:
    made = workflow(node("a"), node("b", 0), node("c"))
    a, b, c = await stored(store, made)
    await begin(store, a)
    rerun = again(made, 0, 1)
    assert await store.rerun(rerun, now=at(5))
    assert (await look(store, a)).cancel_requested_at == at(5)
    assert (await look(store, b)).reason is Reason.REPLACED
    assert await state(store, c) is State.PENDING
    assert await states(store, rerun.jobs) == ["pending", "blocked"]


async def test_nothing_follows_from_the_end_of_jobs_that_are_replaced(store: Store) -> None:
    """On SQLite a job that waited for a replaced one counted as failed, and its `on_failure` job ran."""
    alarm = Template("alarm")
    made = workflow(node("a"), node("b", 0), node("c", 1, on_failure=alarm), node("undo", NodeParent(1, Need.FAILURE)))
    a, b, c, undo = await stored(store, made)
    await complete(store, a)
    rerun = again(made, 1, 2, 3)
    assert await store.rerun(rerun, now=at(5))
    assert {(await look(store, one)).reason for one in (b, c, undo)} == {Reason.REPLACED}
    assert await states(store, rerun.jobs) == ["pending", "blocked", "blocked"]
    assert not await store.find(JobQuery(types=("alarm",)))


async def test_a_node_is_replaced_once(store: Store) -> None:
    made = workflow(node("a"), node("b", 0))
    a, _ = await stored(store, made)
    await kill(store, a)
    first, second = again(made, 0, 1), again(made, 0, 1)
    assert await store.rerun(first, entry=entry(), now=at(5))
    assert not await store.rerun(second, entry=entry(), now=at(6))
    assert [job.id for job in await store.get([job.id for job in second.jobs])] == []
    assert len(await store.ledger()) == 1


async def test_a_skipped_failure_lets_the_workflow_end_well(store: Store) -> None:
    made = workflow(node("a"), node("b", 0))
    a, _ = await stored(store, made)
    await kill(store, a)
    rerun = again(made, 1, skipped=(0,))
    jobs = [replace(rerun.jobs[0], after=after(a.id, need=Need.END))]
    assert await store.rerun(replace(rerun, jobs=jobs), now=at(5))
    assert await states(store, jobs) == ["pending"]
    await complete(store, *jobs, now=at(6))
    (ended,) = await store.workflows([made.id])
    assert (ended.state, dict(ended.progress)) == (WorkflowState.COMPLETED, {"skipped": 1, "completed": 1})


async def test_a_failure_of_an_earlier_run_does_not_fail_the_new_one_fast(store: Store) -> None:
    made = workflow(node("a"), node("b"), policy=FAIL_FAST)
    a, b = await stored(store, made)
    held = await begin(store, a)
    rerun = again(made, 0)
    assert await store.rerun(rerun, now=at(5))
    await end(store, held, failure(permanent=True), at(6))
    assert await states(store, [b, *rerun.jobs]) == ["pending", "pending"]


async def test_how_pruned_jobs_ended_is_kept_with_their_workflow(store: Store) -> None:
    made = workflow(node("a"), node("b"), node("late", run_at=at(10 * 86_400)))
    a, b, late = await stored(store, made)
    await kill(store, a)
    await complete(store, b)
    assert await store.prune(Retention(dead=HOUR, completed=HOUR), 100, now=BASE + DAY) == 2
    shown = await store.nodes(made.id)
    assert [(one.name, one.state, one.is_pruned) for one in shown] == [
        ("a", State.DEAD, True),
        ("b", State.COMPLETED, True),
        ("late", State.SCHEDULED, False),
    ]
    assert [one.reason for one in shown] == [Reason.PERMANENT, None, None]
    await call_off(store, late, now=BASE + DAY)
    assert await state_of(store, made) is WorkflowState.FAILED
    assert await store.prune(Retention(cancelled=HOUR), 100, now=BASE + DAYS_2 + HOUR) == 1
    assert (await store.workflows(), await store.nodes(made.id)) == ([], [])


async def test_discarded_jobs_leave_their_end_with_their_workflow(store: Store) -> None:
    made = workflow(node("a"), node("b"))
    a, _ = await stored(store, made)
    await kill(store, a)
    assert await store.discard([a.id], now=at(9)) == [a.id]
    assert [(one.state, one.is_pruned) for one in await store.nodes(made.id)] == [
        (State.DEAD, True),
        (State.PENDING, False),
    ]


async def test_a_workflow_of_ten_thousand_nodes_is_stored_in_one_call(store: Store) -> None:
    parts = [NewNode(f"part-{place}", job) for place, job in enumerate(new_jobs(9_999, "part"))]
    made = workflow(*parts, node("sum", *range(9_999)))
    jobs = await stored(store, made)
    (found,) = await store.workflows([made.id])
    assert dict(found.progress) == {"pending": 9_999, "blocked": 1}
    assert len(await store.nodes(made.id)) == 10_000
    held = await store.claim(claim(ADA, 100), now=at(1))
    assert len(held) == 100
    assert await state(store, jobs[-1]) is State.BLOCKED

"""Chains, groups and workflows in Python: what they submit, what their jobs get, and what their handles say."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota import Failure, ResultTimeout, Rota, Workflow, WorkflowFailed, as_completed, chain, group, map, wait_all  # noqa: A004 - as the users do
from rota.core.errors import InvalidRequest
from rota.core.graph import WorkflowState

#: Values that a type checker would refuse.
SEVEN: Any = 7
TEXT: Any = "load"
LENGTH: Any = len
NEVER: Any = "never"


class Shop:
    """An app on a file, with tasks."""

    def __init__(self, place: Path) -> None:
        self.app = app = Rota(str(place / "rota.db"))
        self.told: list[Any] = []

        @app.task
        def one(number: int) -> int:
            return number

        @app.task
        def double(number: int) -> int:
            return number * 2

        @app.task
        def total(numbers: list[int]) -> int:
            return sum(numbers)

        @app.task
        def nested(numbers: list[list[int]]) -> list[int]:
            return [sum(part) for part in numbers]

        @app.task
        def whole(numbers: list[Any]) -> Any:  # noqa: ANN401 - of any shape
            return numbers

        @app.task(retry=1)
        def fail(number: int) -> int:
            raise ValueError(f"no {number}")

        @app.task
        def note(failure: Failure) -> None:
            self.told.append(failure)

        @app.task
        def say(text: str) -> str:
            self.told.append(text)
            return text

        self.one, self.double, self.total, self.nested = one, double, total, nested
        self.fail, self.note, self.say, self.whole = fail, note, say, whole


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.app.close()


def test_a_chain_passes_each_result_on(shop: Shop) -> None:
    with shop.app.run():
        handle = chain(shop.one.call(3), shop.double, shop.double).submit()
        assert handle.result("20s") == 12
        assert handle.state is WorkflowState.COMPLETED
        assert handle.results() == {"one": 3, "double-1": 6, "double-2": 12}


def test_then_chains_a_call_with_arguments_of_its_own(shop: Shop) -> None:
    with shop.app.run():
        handle = shop.one.call(3).then(shop.say.call("hello")).submit()
        assert handle.result("20s") == "hello"
    assert shop.told == ["hello"]


def test_a_group_gives_its_results_in_order_to_the_task_after_it(shop: Shop) -> None:
    with shop.app.run():
        both = group(shop.one.call(1), shop.double.call(2), shop.one.call(3))
        assert both.submit().result("20s") == [1, 4, 3]
        assert both.then(shop.total).submit().result("20s") == 8


def test_groups_within_groups_keep_their_shape(shop: Shop) -> None:
    inner = group(shop.one.call(1), shop.one.call(2))
    outer = group(inner, group(shop.one.call(3)))
    with shop.app.run():
        assert outer.submit().result("20s") == [[1, 2], [3]]
        assert outer.then(shop.nested).submit().result("20s") == [3, 3]
        mixed = group(shop.one.call(0), inner, shop.one.call(9), shop.one.call(8))
        assert mixed.then(shop.whole).submit().result("20s") == [0, [1, 2], 9, 8]


def test_a_chain_of_groups_waits_for_every_call(shop: Shop) -> None:
    with shop.app.run():
        flow = chain(
            group(shop.one.call(1), shop.one.call(2)), shop.total, group(shop.one.call(5), shop.one.call(6)), shop.total
        )
        assert flow.submit().result("20s") == 11


def test_several_tasks_follow_side_by_side_and_each_takes_the_value(shop: Shop) -> None:
    with shop.app.run():
        handle = shop.one.call(5).then(shop.double, shop.one, shop.one.call(7)).then(shop.total).submit()
        assert handle.result("20s") == 10 + 5 + 7
        pairs = group(shop.one.call(1), shop.one.call(2)).then(shop.total, shop.whole)
        assert pairs.submit().result("20s") == [3, [1, 2]]
        after_end = shop.fail.call(1).always(shop.one.call(3), shop.double.call(4)).submit()
        assert after_end.wait("20s") is WorkflowState.FAILED
        assert after_end.results() == {"one": 3, "double": 8}
    with pytest.raises(InvalidRequest, match="that is to follow"):
        shop.one.call(1).then(*[])


def test_nodes_are_numbered_past_the_names_of_other_tasks(tmp_path: Path) -> None:
    app = Rota(str(tmp_path / "rota.db"))
    add, other = app.task(name="add")(increment), app.task(name="add-1")(increment)
    flow = group(add.call(1), other.call(2), add.call(3))
    assert flow.names == ["add-2", "add-1", "add-3"]


def test_map_makes_a_call_for_each_item_or_each_chunk(shop: Shop) -> None:
    with shop.app.run():
        assert map(shop.double, range(5)).submit().result("20s") == [0, 2, 4, 6, 8]
        assert map(shop.total, range(5), chunk=2).then(shop.total).submit().result("20s") == 10


def test_a_failure_handler_is_told_what_failed_and_the_callback_does_not_run(shop: Shop) -> None:
    with shop.app.run():
        flow = group(shop.one.call(1), shop.fail.call(7)).then(shop.total).on_failure(shop.note)
        handle = flow.submit(name="sums")
        with pytest.raises(WorkflowFailed, match=r"sums.*'fail' is dead.*no 7"):
            handle.result("20s")
    (failure,) = shop.told
    assert (failure["type"], failure["state"], failure["error"]["message"]) == ("fail", "dead", "no 7")
    assert failure["payload"] == {"args": [7], "kwargs": {}}


def test_always_runs_after_a_failure_too(shop: Shop) -> None:
    with shop.app.run():
        handle = shop.fail.call(1).always(shop.say.call("done")).submit()
        assert handle.result("20s") == "done"
        assert handle.state is WorkflowState.FAILED


def test_a_workflow_has_named_nodes_and_conditions(shop: Shop) -> None:
    flow = Workflow("sums")
    first = flow.add("first", shop.one.call(1))
    second = flow.add("second", shop.double, after=first)
    both = flow.add("both", shop.total, after=[first, second])
    broken = flow.add("broken", shop.fail, after=both)
    flow.add("undo", shop.note, after=broken.failed)
    flow.add("end", shop.say.call("end"), after=[broken.ended, both])
    with shop.app.run():
        handle = flow.submit()
        assert handle.wait("20s") is WorkflowState.FAILED
        assert handle.results() == {"first": 1, "second": 2, "both": 3, "undo": None, "end": "end"}
        assert dict(handle.progress) == {"completed": 5, "dead": 1}
        with pytest.raises(WorkflowFailed, match="no 3"):
            handle.result("20s")


def test_a_workflow_is_retried_from_its_failed_node(shop: Shop) -> None:
    fails = [True]

    @shop.app.task(retry=1)
    def sometimes(number: int) -> int:
        if fails:
            raise ValueError("not yet")
        return number + 1

    with shop.app.run():
        handle = chain(shop.one.call(1), sometimes, shop.double).submit()
        assert handle.wait("20s") is WorkflowState.FAILED
        fails.clear()
        handle.retry()
        assert handle.result("20s") == 4
        assert [one.attempts for one in handle.nodes()] == [1, 1, 1]


def test_a_failed_node_can_be_skipped(shop: Shop) -> None:
    with shop.app.run():
        handle = chain(shop.fail.call(1), shop.say.call("on")).submit()
        handle.wait("20s")
        handle.skip("fail")
        assert handle.result("20s") == "on"
        assert handle.state is WorkflowState.COMPLETED


def test_a_workflow_is_cancelled_as_one(shop: Shop) -> None:
    handle = chain(shop.one.call(1), shop.double, shop.double).submit()
    assert handle.cancel().state is WorkflowState.CANCELLED
    assert dict(shop.app.get_workflow(handle.id).progress) == {"cancelled": 3}
    shop.app.close()


def test_a_workflow_is_submitted_in_the_callers_transaction_or_not_at_all(shop: Shop, tmp_path: Path) -> None:
    shop.one.submit(0)
    connection = sqlite3.connect(tmp_path / "rota.db")
    handle = chain(shop.one.call(1), shop.double).submit(tx=connection)
    connection.rollback()
    with pytest.raises(InvalidRequest, match="unknown"):
        _ = handle.state
    handle = chain(shop.one.call(1), shop.double).submit(tx=connection)
    connection.commit()
    assert dict(handle.progress) == {"pending": 1, "blocked": 1}
    connection.close()
    shop.app.close()


def test_a_key_submits_a_workflow_once(shop: Shop) -> None:
    flow = chain(shop.one.call(1), shop.double)
    first = flow.submit(name="w", idempotency_key="monday")
    assert flow.submit(name="w", idempotency_key="monday").id == first.id
    with pytest.raises(InvalidRequest, match="idempotency key"):
        chain(shop.one.call(2), shop.double).submit(name="w", idempotency_key="monday")
    shop.app.close()


async def test_workflows_are_submitted_and_awaited_in_async_code(shop: Shop) -> None:
    with shop.app.run():
        handle = await group(shop.one.call(1), shop.one.call(2)).then(shop.total).asubmit()
        assert await handle == 3
        assert await handle.await_end("20s") is WorkflowState.COMPLETED


def increment(number: int) -> int:
    return number + 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _: group(), "one or more calls"),
        (lambda shop: map(shop.one, []), "there are none"),
        (lambda shop: map(shop.total, [1], chunk=0), "1 or more"),
        (lambda shop: map(shop.total, [1], chunk=TEXT), "chunk: 'load' is not a number of items"),
        (lambda shop: map(shop.total, SEVEN), "items: 7 will not do"),
        (lambda _: map(LENGTH, [1]), "task: <built-in function len> is not a task"),
        (lambda shop: chain(shop.one.call(1), Rota("sqlite:///never-opened.db").task(increment)), "different apps"),
        (lambda shop: chain(shop.one.call(1)).submit(name=SEVEN), "name: 7 will not do"),
        (lambda _: Workflow(SEVEN), "name: 7 will not do"),
        (lambda shop: chain(shop.one.call(1)).submit(idempotency_key=""), "idempotency_key: '' will not do"),
        (lambda shop: chain(shop.one.call(1)).submit(idempotency_key=SEVEN), "idempotency_key: 7 will not do"),
        (lambda shop: chain(shop.one.call(1)).submit(idempotency_key="k" * 201), "1 to 200 printable characters"),
        (lambda shop: Workflow("w").add("a", shop.one.call(1), after=TEXT), "after: 'load' is not a node"),
        (lambda shop: Workflow("w").add("a", shop.one.call(1), after=SEVEN), "after: 7 is not a node"),
        (lambda shop: chain(shop.one.call(1), SEVEN), "neither a call nor a flow"),
        (lambda shop: chain(shop.one), "neither a call nor a flow"),
        (lambda shop: group(shop.one.call(1), shop.one.call(2)).on_failure(shop.note), "many ends"),
        (lambda shop: chain(shop.one.using(idempotency_key="k").call(1)).submit(), "workflow as a whole"),
        (lambda shop: chain(shop.one.call(1)).submit(policy=NEVER), "fail_fast"),
        (lambda _: Workflow("empty").submit(), "at least one node"),
        (lambda _: Workflow("a\nb"), "printable"),
        (lambda shop: chain(shop.one.call(1)).submit(tx=object(), idempotency_key="k"), "takes no key"),
    ],
)
def test_what_cannot_be_a_workflow_is_refused(shop: Shop, make: Any, words: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidRequest, match=words):
        make(shop)


def test_nodes_of_a_workflow_have_their_own_names_and_workflow(shop: Shop) -> None:
    flow, other = Workflow("a"), Workflow("b")
    node = flow.add("x", shop.one.call(1))
    with pytest.raises(InvalidRequest, match="two nodes"):
        flow.add("x", shop.one.call(1))
    with pytest.raises(InvalidRequest, match="another workflow"):
        other.add("y", shop.double, after=node)
    with pytest.raises(InvalidRequest, match="name that in after"):
        flow.add("z", shop.total, after=[])


def test_a_blocking_wait_in_a_handler_warns(shop: Shop) -> None:
    @shop.app.task
    def outer() -> int:
        with pytest.warns(RuntimeWarning, match="blocks its slot"):
            return shop.one.submit(5).result("20s")

    with shop.app.run(concurrency=2):
        assert outer.submit().result("20s") == 5


def test_many_handles_are_waited_for_together(shop: Shop) -> None:
    with shop.app.run():
        handles = shop.app.submit_many([shop.one.call(number) for number in range(100)])
        assert wait_all(handles, "30s") == list(range(100))
        later = shop.app.submit_many([shop.double.call(number) for number in range(5)])
        assert sorted(one.result() for one in as_completed(later, "30s")) == [0, 2, 4, 6, 8]
    assert wait_all([]) == []


async def test_handles_come_as_they_end_in_async_code(shop: Shop) -> None:
    with shop.app.run():
        handles = await shop.app.asubmit_many([shop.one.call(number) for number in range(3)])
        assert sorted([await one async for one in as_completed(handles, "30s")]) == [0, 1, 2]


def test_handles_of_different_apps_are_not_waited_for_together(shop: Shop, tmp_path: Path) -> None:
    other = Rota(str(tmp_path / "other.db"))

    @other.task
    def elsewhere() -> None: ...

    handles: list[Any] = [shop.one.submit(1), elsewhere.submit()]
    for wait in (wait_all, as_completed):
        with pytest.raises(InvalidRequest, match="different apps; wait for those of one app at a time"):
            list(wait(handles, "1s"))
    other.close()


def test_waiting_for_many_ends_at_its_timeout(shop: Shop) -> None:
    handle = shop.one.submit(1)
    with pytest.raises(ResultTimeout, match="1 jobs have not ended"):
        wait_all([handle], "50ms")
    shop.app.close()

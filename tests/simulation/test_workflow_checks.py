"""The checks of workflows, durable waits and events, tried on histories made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from simulation.test_checker import SECOND, Story

EVENT: dict[str, Any] = {"key": "w", "kind": "event", "until": None, "subject": "paid"}


@pytest.fixture
def story() -> Story:
    return Story()


def begin_wait(story: Story, job_id: int = 1, **got: Any) -> None:  # noqa: ANN401 - parts of a step
    ask = {"job": job_id, "fence": story.jobs[job_id]["fence"], "key": "w", "kind": "event", "span": None}
    ask |= {"event": "paid", "child": None}
    story.apply("begin_wait", ask, EVENT | {"is_done": False, "outcome": None} | got)


def suspend(story: Story, job_id: int = 1) -> None:
    story.end("suspended", job_id)
    story.tell_settlement("suspend", "blocked", job_id, refund=True, wait="w")
    story.jobs[job_id]["attempts"] -= 1


def emit(story: Story, queues: dict[str, int], payload: object = 7) -> None:
    ask = {"name": "paid", "payload": payload, "keep": 1000 * SECOND, "entry": None}
    story.apply("emit", ask, {"is_new": True, "queues": queues})


def waited(story: Story, value: object) -> None:
    job = story.jobs[1]
    story.tell("waited", host="w", boot="w.1", job=1, fence=job["fence"], key="w", value=value)


def suspended(story: Story) -> None:
    story.insert()
    story.claim()
    begin_wait(story)
    suspend(story)


def finish(story: Story, job_id: int = 1, **more: Any) -> None:  # noqa: ANN401 - parts of a settlement
    story.settle("succeed", "completed", job_id, **more)
    story.jobs[job_id]["result"] = more.get("result")


def graph(story: Story, *parents: list[list[Any]], policy: str = "finish", **more: Any) -> None:  # noqa: ANN401
    """Submit a workflow whose nodes are the jobs 1, 2, …; each names its parents by position and condition."""
    told = Story()
    for job_id, its_parents in enumerate(parents, start=1):
        told.insert(job_id, after=[[place + 1, need] for place, need in its_parents], **more)
    states = ["blocked" if its_parents else "pending" for its_parents in parents]
    for job, state in zip(told.jobs.values(), states, strict=True):
        story.jobs[job["id"]] = job | {"state": state}
    nodes = [
        {"job": record["ask"][0], "parents": its_parents}
        for record, its_parents in zip(told.records, parents, strict=True)
    ]
    got = [[job_id, "created", state] for job_id, state in enumerate(states, start=1)]
    story.apply("put_workflow", {"id": 100, "name": "g", "policy": policy, "nodes": nodes}, got)


def check(story: Story) -> list[str]:
    nodes = [[place, job["id"], None, job["state"]] for place, job in enumerate(story.jobs.values())]
    return story.check(workflows=[{"id": 100, "nodes": nodes}])


# Waits


def test_a_job_that_waits_for_an_event_and_is_woken_by_it_is_clean(story: Story) -> None:
    suspended(story)
    emit(story, {"q": 1})
    story.jobs[1]["state"] = "pending"
    story.claim()
    begin_wait(story, is_done=True, outcome=7)
    waited(story, 7)
    finish(story)
    assert story.check() == []


def test_an_event_that_wakes_nobody_breaks_i14(story: Story) -> None:
    suspended(story)
    emit(story, {})
    assert story.check()[0] == "I14"


def test_a_job_that_stays_suspended_breaks_i14(story: Story) -> None:
    suspended(story)
    assert story.check() == ["I14"]


def test_an_event_that_came_before_the_suspension_and_left_the_job_blocked_breaks_i14(story: Story) -> None:
    story.insert()
    story.claim()
    begin_wait(story)
    emit(story, {})
    suspend(story)
    assert story.check()[0] == "I14"


def test_an_event_that_a_later_wait_does_not_find_breaks_i14(story: Story) -> None:
    story.insert()
    story.claim()
    emit(story, {})
    begin_wait(story)
    finish(story)
    assert story.check() == ["I14"]


def test_a_job_given_out_while_it_waits_breaks_i14(story: Story) -> None:
    suspended(story)
    story.claim()
    finish(story)
    assert story.check()[0] == "I14"


def test_a_suspension_that_uses_an_attempt_breaks_i14(story: Story) -> None:
    suspended(story)
    emit(story, {"q": 1})
    story.jobs[1]["state"] = "pending"
    story.claim(attempts=2)
    story.jobs[1]["attempts"] = 1
    finish(story)
    assert story.check() == ["I14"]


def test_a_handler_that_goes_on_before_its_wait_is_over_breaks_i14(story: Story) -> None:
    story.insert()
    story.claim()
    begin_wait(story)
    waited(story, 7)
    finish(story)
    assert story.check() == ["I14"]


def test_a_wait_under_a_stale_fence_breaks_i3(story: Story) -> None:
    story.insert()
    story.claim()
    story.jobs[1]["fence"] = 0
    begin_wait(story)
    story.jobs[1]["fence"] = 1
    finish(story)
    assert story.check() == ["I3"]


# Inputs


def test_a_job_that_is_given_the_result_of_its_parent_is_clean(story: Story) -> None:
    graph(story, [], [[0, "success"]], takes="result")
    story.claim(1)
    finish(story, 1, result={"by": [1, 1]})
    story.jobs[2]["state"] = "pending"
    story.claim(2)
    story.tell("start", host="w", boot="w.1", job=2, fence=1, input={"by": [1, 1]})
    finish(story, 2)
    assert check(story) == []


def test_a_job_that_is_given_the_result_of_another_attempt_breaks_i15(story: Story) -> None:
    graph(story, [], [[0, "success"]], takes="result")
    story.claim(1)
    finish(story, 1, result={"by": [1, 1]})
    story.jobs[2]["state"] = "pending"
    story.claim(2)
    story.tell("start", host="w", boot="w.1", job=2, fence=1, input={"by": [1, 0]})
    finish(story, 2)
    assert check(story) == ["I15"]


def test_a_result_of_another_attempt_that_is_settled_breaks_i15(story: Story) -> None:
    story.insert()
    story.claim()
    finish(story, result={"by": [1, 0]})
    assert story.check() == ["I15"]


# Workflows


def test_a_node_that_runs_before_its_parents_have_ended_breaks_i10(story: Story) -> None:
    graph(story, [], [], [[0, "success"], [1, "end"]])
    story.claim(1)
    finish(story, 1)
    story.claim(3)
    finish(story, 3)
    story.claim(2)
    finish(story, 2)
    assert check(story)[0] == "I10"


def test_a_node_that_never_runs_breaks_i10(story: Story) -> None:
    graph(story, [], [[0, "success"]])
    story.claim(1)
    finish(story, 1)
    assert check(story) == ["I10"]


@pytest.mark.parametrize(("need", "state"), [("failure", "cancelled"), ("end", "pending")])
def test_the_condition_of_a_node_decides_whether_it_runs(story: Story, need: str, state: str) -> None:
    graph(story, [], [[0, need]])
    story.claim(1)
    finish(story, 1)
    story.jobs[2]["state"] = state
    if state == "pending":
        story.claim(2)
        finish(story, 2)
    assert check(story) == []


def test_a_node_that_goes_on_after_a_fast_failure_breaks_i16(story: Story) -> None:
    graph(story, [], [], policy="fail_fast")
    story.claim(1)
    story.end("failed")
    story.tell_settlement("exhaust", "dead", 1, reason="permanent")
    story.claim(2)
    finish(story, 2)
    assert check(story)[0] == "I16"


def test_a_node_that_runs_after_it_was_skipped_breaks_i16(story: Story) -> None:
    graph(story, [], [[0, "success"]])
    entry = ["operator", "workflows.skip", "g"]
    story.tell_settlement("cancel", "cancelled", 1, entry=entry, reason="skipped")
    story.jobs[2]["state"] = "pending"
    story.claim(1)
    finish(story, 1)
    story.claim(2)
    finish(story, 2)
    assert check(story)[0] == "I16"


def test_a_cancel_that_leaves_a_node_breaks_i16(story: Story) -> None:
    graph(story, [], [])
    since = (story.seconds + 1) * SECOND
    story.tell_settlement("cancel", "cancelled", 1, reason="cancel_requested")
    story.tell("workflow_cancelled", host="c", workflow=100, since=since)
    story.claim(2)
    finish(story, 2)
    assert check(story) == ["I16"]


def test_a_workflow_that_was_accepted_and_is_not_stored_breaks_i16(story: Story) -> None:
    story.tell("workflow_accepted", host="c", workflow=100)
    assert story.check() == ["I16"]


def test_a_second_workflow_of_one_submission_breaks_i2(story: Story) -> None:
    graph(story, [], submission="workflow-0/c.1/0")
    record = story.records[-1]
    node = {"job": record["ask"]["nodes"][0]["job"] | {"id": 9}, "parents": []}
    story.apply("put_workflow", record["ask"] | {"id": 101, "nodes": [node]}, [[9, "created", "pending"]])
    assert check(story)[0] == "I2"

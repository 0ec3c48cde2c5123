"""Workflows: stored whole, cancelled whole, failed whole; what was skipped or replaced never starts (I16)."""

from __future__ import annotations

from typing import Any

from simulation.checker.replay import Replay, Workflow
from simulation.checker.violations import Record


def on_put_workflow(replay: Replay, record: Record) -> None:
    """Replay the submission of a graph: all of it was stored, or nothing."""
    ask = record["ask"]
    if any(receipt != "created" for _, receipt, _ in record["got"]):
        return
    parents = [node["parents"] for node in ask["nodes"]]
    ids = [node["job"]["id"] for node in ask["nodes"]]
    workflow = Workflow(ask["id"], ask["policy"], parents, ids, list(ids), _after_failures(parents))
    submission = str(ask["nodes"][0]["job"]["submission"]).rpartition("/")[0]
    earlier = replay.submitted_workflows.get(submission)
    if earlier is not None and any(not replay.jobs[one].is_finished for one in earlier.jobs if one in replay.jobs):
        replay.flag("I2", f"{submission} made a second workflow, {workflow.id}", record)
    replay.submitted_workflows[submission] = workflow
    replay.workflows[workflow.id] = workflow
    replay.nodes.update((one, (workflow, place)) for place, one in enumerate(ids))
    for node, (_, _, state) in zip(ask["nodes"], record["got"], strict=True):
        replay.create(node["job"], record, state)


def _after_failures(parents: list[list[list[Any]]]) -> set[int]:
    """Find the nodes that are there for a failure or any end, and those after them: nodes name earlier ones only."""
    found: set[int] = set()
    for place, its_parents in enumerate(parents):
        if any(need != "success" or position in found for position, need in its_parents):
            found.add(place)
    return found


def on_rerun(replay: Replay, record: Record) -> None:
    """Replay nodes that run again: their old jobs are replaced, all in one step, and new ones made."""
    ask, now = record["ask"], record["clock"]
    if not record["got"]:
        return
    if ask["entry"] is not None:
        replay.entries.append(ask["entry"])
    workflow = replay.workflows[ask["workflow"]]
    for place, old, fields in zip(ask["positions"], ask["replaces"], ask["jobs"], strict=True):
        if workflow.current[place] != old:
            replay.flag("I16", f"job {old} was replaced a second time, by {fields['id']}", record)
        replay.nodes.pop(old, None)
        workflow.current[place] = fields["id"]
        workflow.jobs.append(fields["id"])
        replay.nodes[fields["id"]] = workflow, place
        if old in replay.jobs:
            replay.jobs[old].trail.append(record["number"])
    stopped = replay.stop(ask["replaces"], "replaced", now)
    replay.follow_failures([], replay.release(stopped, now), now)
    for fields in ask["jobs"]:
        replay.create(fields, record)


def on_accepted(replay: Replay, record: Record) -> None:
    """A workflow that was accepted is stored."""
    workflow = replay.workflows.get(record["workflow"])
    if workflow is None:
        replay.flag("I16", f"workflow {record['workflow']} was accepted and is not stored", record)
        return
    for one in workflow.jobs:
        replay.acknowledged.setdefault(one, record["number"])


def on_cancelled(replay: Replay, record: Record) -> None:
    """After an acknowledged cancel every job of the workflow has ended, or was asked to stop."""
    workflow = replay.workflows.get(record["workflow"])
    for one in () if workflow is None else workflow.jobs:
        expected = replay.jobs.get(one)
        if expected is None or expected.is_finished or max(expected.made_at, expected.renewed_at) >= record["since"]:
            continue
        expected.trail.append(record["number"])
        if not expected.is_cancelled:
            replay.flag("I16", f"its workflow was cancelled, and it is {expected.state}", record, expected)
        expected.cancel_heard_at = record["at"]


def check_workflows(replay: Replay, left: dict[int, dict[str, Any]]) -> None:
    """Compare the workflows that are there with those that ought to be."""
    found = {one["id"]: one for one in replay.dump.get("workflows", ())}
    for workflow in replay.workflows.values():
        if workflow.id in found:
            _check_nodes(replay, workflow, found[workflow.id]["nodes"])
        elif any(one in left for one in workflow.jobs):
            replay.flag("I16", f"workflow {workflow.id} is gone, and its jobs are not", None)
    for one in found.keys() - replay.workflows.keys():
        replay.flag("I16", f"workflow {one} was never submitted", None)


def _check_nodes(replay: Replay, workflow: Workflow, nodes: list[list[Any]]) -> None:
    current = {position: job for position, job, replaced_by, _ in nodes if replaced_by is None}
    if current != dict(enumerate(workflow.current)):
        replay.flag("I16", f"workflow {workflow.id} has the nodes {current}, not {workflow.current}", None)
    for _, job, _, state in nodes:
        expected = replay.jobs.get(job)
        if expected is not None and expected.is_finished and state != expected.state:
            replay.flag("I16", f"its node is {state}, and it ended as {expected.state}", None, expected)

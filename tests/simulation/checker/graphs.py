"""Workflows: stored whole, cancelled whole, failed whole; what was skipped or replaced never starts (I16)."""

from __future__ import annotations

from typing import Any

from simulation.checker.court import Court, Workflow
from simulation.checker.verdict import Record


def on_put_workflow(court: Court, record: Record) -> None:
    """Replay the submission of a graph: all of it was stored, or nothing."""
    ask = record["ask"]
    if any(receipt != "created" for _, receipt, _ in record["got"]):
        return
    parents = [node["parents"] for node in ask["nodes"]]
    ids = [node["job"]["id"] for node in ask["nodes"]]
    workflow = Workflow(ask["id"], ask["policy"], parents, ids, list(ids), _after_failures(parents))
    submission = str(ask["nodes"][0]["job"]["submission"]).rpartition("/")[0]
    earlier = court.submitted_workflows.get(submission)
    if earlier is not None and any(not court.jobs[one].is_finished for one in earlier.jobs if one in court.jobs):
        court.blame("I2", f"{submission} made a second workflow, {workflow.id}", record)
    court.submitted_workflows[submission] = workflow
    court.workflows[workflow.id] = workflow
    court.nodes.update((one, (workflow, place)) for place, one in enumerate(ids))
    for node, (_, _, state) in zip(ask["nodes"], record["got"], strict=True):
        court.create(node["job"], record, state)


def _after_failures(parents: list[list[list[Any]]]) -> set[int]:
    """Find the nodes that are there for a failure or any end, and those after them: nodes name earlier ones only."""
    found: set[int] = set()
    for place, its_parents in enumerate(parents):
        if any(need != "success" or position in found for position, need in its_parents):
            found.add(place)
    return found


def on_rerun(court: Court, record: Record) -> None:
    """Replay nodes that run again: their old jobs are replaced, all in one step, and new ones made."""
    ask, now = record["ask"], record["clock"]
    if not record["got"]:
        return
    if ask["entry"] is not None:
        court.entries.append(ask["entry"])
    workflow = court.workflows[ask["workflow"]]
    for place, old, told in zip(ask["positions"], ask["replaces"], ask["jobs"], strict=True):
        if workflow.current[place] != old:
            court.blame("I16", f"job {old} was replaced a second time, by {told['id']}", record)
        court.nodes.pop(old, None)
        workflow.current[place] = told["id"]
        workflow.jobs.append(told["id"])
        court.nodes[told["id"]] = workflow, place
        if old in court.jobs:
            court.jobs[old].trail.append(record["number"])
    stopped = court.stop(ask["replaces"], "replaced", now)
    court.follow_failures([], court.release(stopped, now), now)
    for told in ask["jobs"]:
        court.create(told, record)


def on_accepted(court: Court, record: Record) -> None:
    """A workflow that was accepted is stored."""
    workflow = court.workflows.get(record["workflow"])
    if workflow is None:
        court.blame("I16", f"workflow {record['workflow']} was accepted and is not stored", record)
        return
    for one in workflow.jobs:
        court.acknowledged.setdefault(one, record["number"])


def on_cancelled(court: Court, record: Record) -> None:
    """After an acknowledged cancel every job of the workflow has ended, or was asked to stop."""
    workflow = court.workflows.get(record["workflow"])
    for one in () if workflow is None else workflow.jobs:
        twin = court.jobs.get(one)
        if twin is None or twin.is_finished or max(twin.made_at, twin.renewed_at) >= record["since"]:
            continue
        twin.trail.append(record["number"])
        if not twin.is_cancelled:
            court.blame("I16", f"its workflow was cancelled, and it is {twin.state}", record, twin)
        twin.cancel_heard_at = record["at"]


def judge_workflows(court: Court, left: dict[int, dict[str, Any]]) -> None:
    """Compare the workflows that are there with those that ought to be."""
    found = {one["id"]: one for one in court.dump.get("workflows", ())}
    for workflow in court.workflows.values():
        if workflow.id in found:
            _judge_nodes(court, workflow, found[workflow.id]["nodes"])
        elif any(one in left for one in workflow.jobs):
            court.blame("I16", f"workflow {workflow.id} is gone, and its jobs are not", None)
    for one in found.keys() - court.workflows.keys():
        court.blame("I16", f"workflow {one} was never submitted", None)


def _judge_nodes(court: Court, workflow: Workflow, nodes: list[list[Any]]) -> None:
    current = {position: job for position, job, replaced_by, _ in nodes if replaced_by is None}
    if current != dict(enumerate(workflow.current)):
        court.blame("I16", f"workflow {workflow.id} has the nodes {current}, not {workflow.current}", None)
    for _, job, _, state in nodes:
        twin = court.jobs.get(job)
        if twin is not None and twin.is_finished and state != twin.state:
            court.blame("I16", f"its node is {state}, and it ended as {twin.state}", None, twin)

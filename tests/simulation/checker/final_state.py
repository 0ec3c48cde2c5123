"""The store at the end, compared with the model: I1, I3, I5, I6, I8, I10, I11, I12."""

from __future__ import annotations

from collections import Counter
from typing import Any

from simulation.checker import workflows
from simulation.checker.replay import FINISHED, ExpectedJob, Replay


def check_final_state(replay: Replay) -> None:
    """Compare the dump with the model."""
    left = {job["id"]: job for job in replay.dump["jobs"]}
    for job_id, job in left.items():
        expected = replay.jobs.get(job_id)
        if expected is None:
            replay.unknown_jobs.pop(job_id, None)
            _check_unknown_job(replay, job)
        else:
            _check_job(replay, expected, job)
    for job_id, record in replay.unknown_jobs.items():
        replay.flag("I11", f"job {job_id} was given out and never handed in", record)
    absent = [*replay.replaced_jobs, *(expected for job_id, expected in replay.jobs.items() if job_id not in left)]
    _check_absent(replay, absent)
    for expected in replay.jobs.values():
        if expected.id in left and not expected.is_finished:
            _check_unfinished(replay, expected, left[expected.id]["state"])
    workflows.check_workflows(replay, left)
    _check_census(replay, left)
    _check_ledger(replay)
    for damage in replay.dump["damage"]:
        replay.flag("I11", f"the store is damaged: {damage}", None)


def _check_unknown_job(replay: Replay, job: dict[str, Any]) -> None:
    """A job that no process submitted was made twice by what made it."""
    if job["parent_id"] is not None:
        parents = [replay.jobs[job["parent_id"]]] if job["parent_id"] in replay.jobs else []
        replay.flag("I10", f"job {job['id']} is one follow-up too many", None, *parents)
    elif job["schedule_id"] is not None:
        replay.flag("I8", f"job {job['id']} is one too many for fire time {job['fire_time']}", None)
    else:
        replay.flag("I11", f"job {job['id']} was never handed in", None)


def _check_job(replay: Replay, expected: ExpectedJob, job: dict[str, Any]) -> None:
    if job["fence"] < expected.fence:
        replay.flag("I3", f"its fence shrank to {job['fence']} from {expected.fence}", None, expected)
    if job["attempts"] != expected.attempts:
        invariant = "I12" if expected.last_event in {"release", "snooze"} else "I5"
        replay.flag(invariant, f"has {job['attempts']} attempts, made {expected.attempts}", None, expected)
    if job["state"] == expected.state:
        if expected.result is not None and job.get("result") != expected.result:
            replay.flag("I15", f"has the result {job.get('result')}, not {expected.result}", None, expected)
        return
    if job["state"] == "blocked" and expected.wait is not None:
        replay.flag("I14", f"still suspended; its wait is over, and it would be {expected.state}", None, expected)
    elif job["state"] == "blocked":
        replay.flag("I10", f"still blocked; told of its parents' ends it would be {expected.state}", None, expected)
    elif expected.is_finished:
        replay.flag("I6", f"is {job['state']} and had ended as {expected.state}", None, expected)
    elif job["state"] in FINISHED:
        replay.flag("I11", f"is {job['state']}, and nothing ended it", None, expected)


def _check_absent(replay: Replay, absent: list[ExpectedJob]) -> None:
    """Only what has ended may be gone, and it is counted."""
    pruned = Counter(replay.dump["census"]["pruned"])
    gone = Counter(expected.state for expected in absent)
    excess = Counter({state: pruned[state] - gone[state] for state in FINISHED})
    for expected in absent:
        if expected.is_finished:
            continue
        if any(count > 0 for count in excess.values()):
            replay.flag("I11", f"pruned while it was {expected.state}", None, expected)
        elif expected.last_event == "release":
            replay.flag("I12", "handed back and not there any more", None, expected)
        elif expected.parent_id is not None:
            replay.flag("I10", "a follow-up that was to be made and is not there", None, expected)
        elif expected.schedule_id is not None:
            replay.flag("I8", "a job of a fire time that was to be made and is not there", None, expected)
        else:
            replay.flag("I1", "acknowledged and not there" if _is_known(replay, expected) else "lost", None, expected)
    for state in sorted(FINISHED):
        if all(expected.is_finished for expected in absent) and excess[state] != 0:
            replay.flag("I11", f"{gone[state]} {state} jobs are gone, {pruned[state]} were pruned", None)


def _is_known(replay: Replay, expected: ExpectedJob) -> bool:
    return expected.id in replay.acknowledged


def _check_unfinished(replay: Replay, expected: ExpectedJob, state: str) -> None:
    """Every job has to end; find the invariant by which this one should have."""
    if state == "blocked" and expected.wait is not None and not expected.waits:
        replay.flag("I14", f"still suspended: waits for {expected.steps[expected.wait].subject}", None, expected)
    elif state == "blocked":
        # While a parent has not ended, the violation is the one of that parent.
        if not any(parent in replay.jobs and not replay.jobs[parent].is_finished for parent in expected.waits):
            replay.flag("I10", "still blocked although all it waited for has ended", None, expected)
    elif expected.last_event == "release":
        replay.flag("I12", f"handed back and never run again: {expected.state}", None, expected)
    else:
        said = "acknowledged" if _is_known(replay, expected) else "stored"
        replay.flag(
            "I1", f"{said} and not at its end: {expected.state} after {expected.last_event or 'insert'}", None, expected
        )


def _check_census(replay: Replay, left: dict[int, dict[str, Any]]) -> None:
    living = Counter((job["queue"], job["type"], job["state"]) for job in left.values() if job["state"] not in FINISHED)
    finished = Counter(job["state"] for job in left.values() if job["state"] in FINISHED)
    counted = {(queue, type_, state): count for queue, type_, state, count in replay.dump["census"]["living"]}
    if counted != dict(living) or {k: v for k, v in replay.dump["census"]["finished"].items() if v} != dict(finished):
        replay.flag("I11", "the census does not agree with the jobs that are there", None)


def _check_ledger(replay: Replay) -> None:
    written = Counter(tuple(entry) for entry in replay.dump["ledger"])
    for entry, count in Counter(tuple(entry) for entry in replay.entries).items():
        if written[entry] < count:
            replay.flag("I6", f"{entry} was done {count} times and is in the ledger {written[entry]} times", None)

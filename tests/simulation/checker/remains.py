"""What is left at the end, compared with what ought to be: I1, I3, I5, I6, I8, I10, I11, I12."""

from __future__ import annotations

from collections import Counter
from typing import Any

from simulation.checker import graphs
from simulation.checker.court import FINISHED, Court, Twin


def judge_remains(court: Court) -> None:
    """Compare the dump with the twins."""
    left = {job["id"]: job for job in court.dump["jobs"]}
    for job_id, job in left.items():
        twin = court.jobs.get(job_id)
        if twin is None:
            court.strangers.pop(job_id, None)
            _judge_stranger(court, job)
        else:
            _judge_job(court, twin, job)
    for job_id, record in court.strangers.items():
        court.blame("I11", f"job {job_id} was given out and never handed in", record)
    absent = [*court.departed, *(twin for job_id, twin in court.jobs.items() if job_id not in left)]
    _judge_absent(court, absent)
    for twin in court.jobs.values():
        if twin.id in left and not twin.is_finished:
            _judge_unfinished(court, twin, left[twin.id]["state"])
    graphs.judge_workflows(court, left)
    _judge_census(court, left)
    _judge_ledger(court)
    for damage in court.dump["damage"]:
        court.blame("I11", f"the store is damaged: {damage}", None)


def _judge_stranger(court: Court, job: dict[str, Any]) -> None:
    """A job that nobody handed in was made twice by whoever made it."""
    if job["parent_id"] is not None:
        parents = [court.jobs[job["parent_id"]]] if job["parent_id"] in court.jobs else []
        court.blame("I10", f"job {job['id']} is one follow-up too many", None, *parents)
    elif job["schedule_id"] is not None:
        court.blame("I8", f"job {job['id']} is one too many for fire time {job['fire_time']}", None)
    else:
        court.blame("I11", f"job {job['id']} was never handed in", None)


def _judge_job(court: Court, twin: Twin, job: dict[str, Any]) -> None:
    if job["fence"] < twin.fence:
        court.blame("I3", f"its fence shrank to {job['fence']} from {twin.fence}", None, twin)
    if job["attempts"] != twin.attempts:
        invariant = "I12" if twin.last_event in {"release", "snooze"} else "I5"
        court.blame(invariant, f"has {job['attempts']} attempts, made {twin.attempts}", None, twin)
    if job["state"] == twin.state:
        if twin.result is not None and job.get("result") != twin.result:
            court.blame("I15", f"has the result {job.get('result')}, not {twin.result}", None, twin)
        return
    if job["state"] == "blocked" and twin.wait is not None:
        court.blame("I14", f"still suspended; its wait is over, and it would be {twin.state}", None, twin)
    elif job["state"] == "blocked":
        court.blame("I10", f"still blocked; told of its parents' ends it would be {twin.state}", None, twin)
    elif twin.is_finished:
        court.blame("I6", f"is {job['state']} and had ended as {twin.state}", None, twin)
    elif job["state"] in FINISHED:
        court.blame("I11", f"is {job['state']}, and nobody ended it", None, twin)


def _judge_absent(court: Court, absent: list[Twin]) -> None:
    """Only what has ended may be gone, and it is counted."""
    pruned = Counter(court.dump["census"]["pruned"])
    gone = Counter(twin.state for twin in absent)
    excess = Counter({state: pruned[state] - gone[state] for state in FINISHED})
    for twin in absent:
        if twin.is_finished:
            continue
        if any(count > 0 for count in excess.values()):
            court.blame("I11", f"pruned while it was {twin.state}", None, twin)
        elif twin.last_event == "release":
            court.blame("I12", "handed back and not there any more", None, twin)
        elif twin.parent_id is not None:
            court.blame("I10", "a follow-up that was to be made and is not there", None, twin)
        elif twin.schedule_id is not None:
            court.blame("I8", "a job of a fire time that was to be made and is not there", None, twin)
        else:
            court.blame("I1", "acknowledged and not there" if _is_known(court, twin) else "lost", None, twin)
    for state in sorted(FINISHED):
        if all(twin.is_finished for twin in absent) and excess[state] != 0:
            court.blame("I11", f"{gone[state]} {state} jobs are gone, {pruned[state]} were pruned", None)


def _is_known(court: Court, twin: Twin) -> bool:
    return twin.id in court.acknowledged


def _judge_unfinished(court: Court, twin: Twin, state: str) -> None:
    """Every job was to come to its end; say whose fault it is that this one did not."""
    if state == "blocked" and twin.wait is not None and not twin.waits:
        court.blame("I14", f"still suspended: waits for {twin.steps[twin.wait].subject}", None, twin)
    elif state == "blocked":
        # As long as a parent has not ended, it is the parent that is to blame.
        if not any(parent in court.jobs and not court.jobs[parent].is_finished for parent in twin.waits):
            court.blame("I10", "still blocked although all it waited for has ended", None, twin)
    elif twin.last_event == "release":
        court.blame("I12", f"handed back and never run again: {twin.state}", None, twin)
    else:
        said = "acknowledged" if _is_known(court, twin) else "stored"
        court.blame("I1", f"{said} and not at its end: {twin.state} after {twin.last_event or 'insert'}", None, twin)


def _judge_census(court: Court, left: dict[int, dict[str, Any]]) -> None:
    living = Counter((job["queue"], job["type"], job["state"]) for job in left.values() if job["state"] not in FINISHED)
    finished = Counter(job["state"] for job in left.values() if job["state"] in FINISHED)
    counted = {(queue, type_, state): count for queue, type_, state, count in court.dump["census"]["living"]}
    if counted != dict(living) or {k: v for k, v in court.dump["census"]["finished"].items() if v} != dict(finished):
        court.blame("I11", "the census does not agree with the jobs that are there", None)


def _judge_ledger(court: Court) -> None:
    written = Counter(tuple(entry) for entry in court.dump["ledger"])
    for entry, count in Counter(tuple(entry) for entry in court.entries).items():
        if written[entry] < count:
            court.blame("I6", f"{entry} was done {count} times and is in the ledger {written[entry]} times", None)

"""Submissions and their keys: I1 (what was acknowledged) and I2 (one job per key)."""

from __future__ import annotations

from typing import Any

from simulation.checker.court import Court, Key, Twin
from simulation.checker.verdict import Record


def on_insert(court: Court, record: Record) -> None:
    """Replay a batch of submissions."""
    for told, (job_id, receipt, state) in zip(record["ask"], record["got"], strict=True):
        if told["key"] is not None and receipt != "id_taken":
            _judge_key(court, record, told, job_id, receipt)
        if receipt == "created":
            _judge_submission(court, record, told["submission"], court.create(told, record, state))
            if told["fire_time"] is not None:
                court.blame(
                    "I8", f"job {job_id} of fire time {told['fire_time']} was made apart from its firing", record
                )
        elif job_id in court.jobs:
            court.jobs[job_id].trail.append(record["number"])


def _judge_submission(court: Court, record: Record, submission: str | None, twin: Twin) -> None:
    """Who repeats a submission because no answer came gets no second job, key or no key, while there is the first."""
    if submission is None:
        return
    first = court.submissions.get(submission)
    if first is not None and court.jobs.get(first.id) is first and not first.is_finished:
        court.blame("I2", f"{submission} made a second job, {twin.id}", record, first)
    court.submissions[submission] = twin


def _judge_key(court: Court, record: Record, told: dict[str, Any], job_id: int, receipt: str) -> None:
    scope, name, request, keep = told["key"]
    known = court.keys.get((scope, name))
    now = record["clock"]
    holds = known is not None and (known.expires_at > now or not _is_over(court, known.job))
    if known is not None and receipt == "created" and known.expires_at <= court.clock and _is_over(court, known.job):
        # It has expired once, by a clock that was set back since, and may have been forgotten then.
        holds = False
    if known is None or not holds:
        if receipt == "created":
            court.keys[scope, name] = Key(job_id, request, now + keep)
        else:
            court.blame("I2", f"key {name!r} is new and was answered {receipt}", record)
        return
    twins = [court.jobs[known.job]] if known.job in court.jobs else []
    if receipt == "key_reused" and twins and court.submissions.get(told["submission"]) is twins[0]:
        court.blame("I2", f"{told['submission']} was repeated, and refused the job it had made itself", record, *twins)
        return
    if receipt == "created":
        court.blame("I2", f"key {name!r} made a second job, {job_id}", record, *twins)
    elif known.request != request and receipt != "key_reused":
        court.blame("I2", f"key {name!r} came with another body and was answered {receipt}", record, *twins)
    elif known.request == request and (receipt != "replayed" or job_id != known.job):
        court.blame("I2", f"key {name!r} came again and was answered {receipt} with job {job_id}", record, *twins)


def _is_over(court: Court, job_id: int) -> bool:
    twin = court.jobs.get(job_id)
    return twin is None or twin.is_finished


def on_insert_heard(court: Court, record: Record) -> None:
    """Note which jobs their submitters believe in."""
    for job_id, receipt, _state in record["got"]:
        if receipt in {"created", "replayed", "id_taken"}:
            court.acknowledged.setdefault(job_id, record["number"])


def on_accepted(court: Court, record: Record) -> None:
    """Whatever stands between a submitter and the store: what is accepted has been stored."""
    court.acknowledged.setdefault(record["job"], record["number"])
    if record["job"] not in court.jobs:
        court.blame("I1", f"job {record['job']} was accepted and is not stored", record)

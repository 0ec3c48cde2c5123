"""Submissions and their keys: I1 (what was acknowledged) and I2 (one job per key)."""

from __future__ import annotations

from typing import Any

from simulation.checker.replay import ExpectedJob, Key, Replay
from simulation.checker.violations import Record


def on_insert(replay: Replay, record: Record) -> None:
    """Replay a batch of submissions."""
    for asked, (job_id, receipt, state) in zip(record["ask"], record["got"], strict=True):
        if asked["key"] is not None and receipt != "id_taken":
            _check_key(replay, record, asked, job_id, receipt)
        if receipt == "created":
            _check_submission(replay, record, asked["submission"], replay.create(asked, record, state))
            if asked["fire_time"] is not None:
                replay.flag(
                    "I8", f"job {job_id} of fire time {asked['fire_time']} was made apart from its firing", record
                )
        elif job_id in replay.jobs:
            replay.jobs[job_id].trail.append(record["number"])


def _check_submission(replay: Replay, record: Record, submission: str | None, expected: ExpectedJob) -> None:
    """A submission that is repeated, with or without a key, makes no second job while there is the first."""
    if submission is None:
        return
    first = replay.submissions.get(submission)
    if first is not None and replay.jobs.get(first.id) is first and not first.is_finished:
        replay.flag("I2", f"{submission} made a second job, {expected.id}", record, first)
    replay.submissions[submission] = expected


def _check_key(replay: Replay, record: Record, asked: dict[str, Any], job_id: int, receipt: str) -> None:
    scope, name, request, keep = asked["key"]
    known = replay.keys.get((scope, name))
    now = record["clock"]
    holds = known is not None and (known.expires_at > now or not _is_over(replay, known.job))
    if known is not None and receipt == "created" and known.expires_at <= replay.clock and _is_over(replay, known.job):
        # It has expired once, by a clock that was set back since, and may have been forgotten then.
        holds = False
    if known is None or not holds:
        if receipt == "created":
            replay.keys[scope, name] = Key(job_id, request, now + keep)
        else:
            replay.flag("I2", f"key {name!r} is new and was answered {receipt}", record)
        return
    expected_jobs = [replay.jobs[known.job]] if known.job in replay.jobs else []
    if receipt == "key_reused" and expected_jobs and replay.submissions.get(asked["submission"]) is expected_jobs[0]:
        replay.flag(
            "I2", f"{asked['submission']} was repeated, and refused the job it had made itself", record, *expected_jobs
        )
        return
    if receipt == "created":
        replay.flag("I2", f"key {name!r} made a second job, {job_id}", record, *expected_jobs)
    elif known.request != request and receipt != "key_reused":
        replay.flag("I2", f"key {name!r} came with another body and was answered {receipt}", record, *expected_jobs)
    elif known.request == request and (receipt != "replayed" or job_id != known.job):
        replay.flag(
            "I2", f"key {name!r} came again and was answered {receipt} with job {job_id}", record, *expected_jobs
        )


def _is_over(replay: Replay, job_id: int) -> bool:
    expected = replay.jobs.get(job_id)
    return expected is None or expected.is_finished


def on_insert_heard(replay: Replay, record: Record) -> None:
    """Note which jobs their submitters believe in."""
    for job_id, receipt, _state in record["got"]:
        if receipt in {"created", "replayed", "id_taken"}:
            replay.acknowledged.setdefault(job_id, record["number"])


def on_accepted(replay: Replay, record: Record) -> None:
    """What was accepted, over HTTP or not, is stored."""
    replay.acknowledged.setdefault(record["job"], record["number"])
    if record["job"] not in replay.jobs:
        replay.flag("I1", f"job {record['job']} was accepted and is not stored", record)

"""Submissions and their keys: I1 (what was acknowledged) and I2 (one job per key)."""

from __future__ import annotations

from typing import Any

from simulation.checker.court import Court, Key
from simulation.checker.verdict import Record


def on_insert(court: Court, record: Record) -> None:
    """Replay a batch of submissions."""
    for told, (job_id, receipt, state) in zip(record["ask"], record["got"], strict=True):
        if told["key"] is not None and receipt != "id_taken":
            _judge_key(court, record, told, job_id, receipt)
        if receipt == "created":
            court.create(told, record, state)
        elif job_id in court.jobs:
            court.jobs[job_id].trail.append(record["number"])


def _judge_key(court: Court, record: Record, told: dict[str, Any], job_id: int, receipt: str) -> None:
    scope, name, request, keep = told["key"]
    known = court.keys.get((scope, name))
    now = record["clock"]
    holds = known is not None and (known.expires_at > now or not _is_over(court, known.job))
    if known is None or not holds:
        if receipt == "created":
            court.keys[scope, name] = Key(job_id, request, now + keep)
        else:
            court.blame("I2", f"key {name!r} is new and was answered {receipt}", record)
        return
    twins = [court.jobs[known.job]] if known.job in court.jobs else []
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

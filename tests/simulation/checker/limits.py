"""Limits: I13 (no more run, and no more start in a time, than a limit allows as of the claim)."""

from __future__ import annotations

from collections import Counter

from simulation.checker.court import Court, Twin
from simulation.checker.verdict import Record


def on_limits(court: Court, record: Record) -> None:
    """Note the limits of the world."""
    court.has_keys = True
    court.limits = {limit["name"]: limit for limit in record["limits"]}


def judge(court: Court, record: Record, given: list[Twin]) -> None:
    """Count what runs now under each limit of the jobs that were given out, and how close together they started."""
    running = Counter(name for twin in court.jobs.values() if twin.state == "running" for name in _names(twin))
    for twin in given:
        for name in _names(twin):
            most = _most_running(court, name)
            if most is not None and running[name] > most:
                court.blame("I13", f"{running[name]} run under {name}, which allows {most}", record, twin)
            _judge_rates(court, record, name, twin)


def _names(twin: Twin) -> list[str]:
    names = [f"queue:{twin.queue}", f"task:{twin.type}"]
    return names if twin.concurrency_key is None else [*names, f"key:{twin.concurrency_key}"]


def _most_running(court: Court, name: str) -> int | None:
    limit = court.limits.get(name)
    if not name.startswith("key:") or (limit is not None and limit["max_running"]):
        return None if limit is None else limit["max_running"]
    # Whatever the type of the job that has it, a key belongs to the task that makes such keys.
    _, *task, _value = name.split(":")
    limit = court.limits.get(f"task:{task[0]}") if task else None
    return (None if limit is None else limit["per_key_max_running"]) or 1


def _judge_rates(court: Court, record: Record, name: str, twin: Twin) -> None:
    """In no span of time more jobs start than the burst and one for each interval; if no clock was ever set."""
    limit = court.limits.get(name)
    if limit is None or not limit["rates"] or court.clock_meddled_at >= 0:
        return
    starts = court.limited_starts.setdefault(name, [])
    starts.append(record["clock"])
    for interval, burst in limit["rates"]:
        for number, begun in enumerate(reversed(starts), 1):
            if number > burst + (starts[-1] - begun) / interval:
                court.blame("I13", f"{number} started within {starts[-1] - begun} us under {name}", record, twin)
                return

"""Limits: I13 (no more run, and no more start in a time, than a limit allows as of the claim), G7 (keys take turns)."""

from __future__ import annotations

from collections import Counter
from typing import Any

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
            closed_until = court.limits.get(name, {}).get("closed_until")
            if closed_until is not None and closed_until > record["clock"]:
                court.blame("I13", f"started under {name}, which is closed", record, twin)
        _judge_sequence(court, record, twin)


def _judge_sequence(court: Court, record: Record, twin: Twin) -> None:
    """In strict order, all jobs that were submitted before this one have ended."""
    if not _is_strict(court, twin.concurrency_key):
        return
    for other in court.jobs.values():
        if other.concurrency_key == twin.concurrency_key and other.id < twin.id and not other.is_finished:
            court.blame("I13", f"started before job {other.id}, which was submitted before it", record, twin)
            return


def _is_strict(court: Court, key: str | None) -> bool:
    return court.limits.get(f"key:{key}", {}).get("order") == "strict"


def judge_turns(court: Court, record: Record, given: list[Twin]) -> None:
    """A job that could have started must have, if the claim had room; if it had none, the keys take turns."""
    ask = record["ask"]
    if ask.get("ids") is not None:
        return
    running = Counter(name for twin in court.jobs.values() if twin.state == "running" for name in _names(twin))
    started = [twin for twin in given if twin.concurrency_key is not None]
    for twin in started:
        court.overtaken.pop(str(twin.concurrency_key), None)
    for key, left in _first_of_keys(court, ask, record["clock"]).items():
        if not _could_start(court, record, left, running) or any(twin.concurrency_key == key for twin in started):
            court.overtaken.pop(key, None)
            continue
        if len(record["got"]) < ask["limit"]:
            court.blame("G7", "left behind although its limits allow it and there was room for it", record, left)
        overtaken = court.overtaken.setdefault(key, {})
        for twin in started:
            # A job that starts again after a retry has kept its turn, so it counts once.
            if twin.priority <= left.priority:
                overtaken.setdefault(str(twin.concurrency_key), set()).add(twin.id)
        # As many as the weight in a round, and one more if both are due at the same virtual time.
        counts = {other: len(jobs) for other, jobs in overtaken.items()}
        if any(count > _weight(court, other) + 1 for other, count in counts.items()):
            court.blame("G7", f"{counts} went first", record, left)
            overtaken.clear()


def _weight(court: Court, key: str) -> int:
    own, task = court.limits.get(f"key:{key}", {}), court.limits.get(f"task:{key.partition(':')[0]}", {})
    return int(own.get("weight") or (":" in key and task.get("weight")) or 1)


def _first_of_keys(court: Court, ask: dict[str, Any], now: int) -> dict[str, Twin]:
    """Return the first claimable job of each key without a strict order, by turn."""
    first: dict[str, Twin] = {}
    for twin in court.pending.values():
        key = twin.concurrency_key
        if key is None or _is_strict(court, key) or not is_eligible(twin, ask, now):
            continue
        if key not in first or (twin.turn, twin.id) < (first[key].turn, first[key].id):
            first[key] = twin
    return first


def _could_start(court: Court, record: Record, twin: Twin, running: Counter[str]) -> bool:
    """Whether all limits of a job have a permit left after a claim. Whether a rate has is not known here."""
    for name in _names(twin):
        most = _most_running(court, name)
        limit = court.limits.get(name)
        if most is not None and running[name] >= most:
            return False
        if limit is not None and (limit["rates"] or (limit.get("closed_until") or 0) > record["clock"]):
            return False
    return True


def is_eligible(twin: Twin, ask: dict[str, Any], now: int) -> bool:
    """Whether a claim may be given a job, but for limits."""
    return (
        twin.queue in ask["queues"]
        and (ask["types"] is None or twin.type in ask["types"])
        and twin.run_at <= now
        and not twin.is_vague
        and (twin.expires_at is None or twin.expires_at > now)
    )


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

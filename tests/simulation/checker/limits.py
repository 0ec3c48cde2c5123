"""Limits: I13 (no more run, and no more start in a time, than a limit allows as of the claim), G7 (keys take turns)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from simulation.checker.replay import ExpectedJob, Replay
from simulation.checker.violations import Record


def on_limits(replay: Replay, record: Record) -> None:
    """Note the limits of the world."""
    replay.has_keys = True
    replay.limits = {limit["name"]: limit for limit in record["limits"]}


def check(replay: Replay, record: Record, given: list[ExpectedJob]) -> None:
    """Count what runs now under each limit of the jobs that were given out, and how close together they started."""
    running = Counter(
        name for expected in replay.jobs.values() if expected.state == "running" for name in _names(expected)
    )
    for expected in given:
        for name in _names(expected):
            most = _most_running(replay, name)
            if most is not None and running[name] > most:
                replay.flag("I13", f"{running[name]} run under {name}, which allows {most}", record, expected)
            _check_rates(replay, record, name, expected)
            closed_until = replay.limits.get(name, {}).get("closed_until")
            if closed_until is not None and closed_until > record["clock"]:
                replay.flag("I13", f"started under {name}, which is closed", record, expected)
        _check_sequence(replay, record, expected)


def _check_sequence(replay: Replay, record: Record, expected: ExpectedJob) -> None:
    """In strict order, all jobs that were submitted before this one have ended."""
    if not _is_strict(replay, expected.concurrency_key):
        return
    for other in replay.jobs.values():
        if other.concurrency_key == expected.concurrency_key and other.id < expected.id and not other.is_finished:
            replay.flag("I13", f"started before job {other.id}, which was submitted before it", record, expected)
            return


def _is_strict(replay: Replay, key: str | None) -> bool:
    return replay.limits.get(f"key:{key}", {}).get("order") == "strict"


def check_turns(replay: Replay, record: Record, given: list[ExpectedJob]) -> None:
    """A job that could have started must have, if the claim had room; if it had none, the keys take turns."""
    ask = record["ask"]
    if ask.get("ids") is not None:
        return
    running = Counter(
        name for expected in replay.jobs.values() if expected.state == "running" for name in _names(expected)
    )
    started = [expected for expected in given if expected.concurrency_key is not None]
    for expected in started:
        replay.overtaken.pop(str(expected.concurrency_key), None)
    for key, left in _first_of_keys(replay, ask, record["clock"]).items():
        if not _could_start(replay, record, left, running) or any(
            expected.concurrency_key == key for expected in started
        ):
            replay.overtaken.pop(key, None)
            continue
        if len(record["got"]) < ask["limit"]:
            replay.flag("G7", "left behind although its limits allow it and there was room for it", record, left)
        overtaken = replay.overtaken.setdefault(key, {})
        for expected in started:
            # A job that starts again after a retry has kept its turn, so it counts once.
            if expected.priority <= left.priority:
                overtaken.setdefault(str(expected.concurrency_key), set()).add(expected.id)
        # As many as the weight in a round, and one more if both are due at the same virtual time.
        counts = {other: len(jobs) for other, jobs in overtaken.items()}
        if any(count > _weight(replay, other) + 1 for other, count in counts.items()):
            replay.flag("G7", f"{counts} went first", record, left)
            overtaken.clear()


def _weight(replay: Replay, key: str) -> int:
    own, task = replay.limits.get(f"key:{key}", {}), replay.limits.get(f"task:{key.partition(':')[0]}", {})
    return int(own.get("weight") or (":" in key and task.get("weight")) or 1)


def _first_of_keys(replay: Replay, ask: dict[str, Any], now: int) -> dict[str, ExpectedJob]:
    """Return the first claimable job of each key without a strict order, by turn."""
    first: dict[str, ExpectedJob] = {}
    for expected in replay.pending.values():
        key = expected.concurrency_key
        if key is None or _is_strict(replay, key) or not is_eligible(expected, ask, now):
            continue
        if key not in first or (expected.turn, expected.id) < (first[key].turn, first[key].id):
            first[key] = expected
    return first


def _could_start(replay: Replay, record: Record, expected: ExpectedJob, running: Counter[str]) -> bool:
    """Whether all limits of a job have a permit left after a claim. Whether a rate has is not known here."""
    for name in _names(expected):
        most = _most_running(replay, name)
        limit = replay.limits.get(name)
        if most is not None and running[name] >= most:
            return False
        if limit is not None and (limit["rates"] or (limit.get("closed_until") or 0) > record["clock"]):
            return False
    return True


def is_eligible(expected: ExpectedJob, ask: dict[str, Any], now: int) -> bool:
    """Whether a claim may be given a job, but for limits."""
    return (
        expected.queue in ask["queues"]
        and (ask["types"] is None or expected.type in ask["types"])
        and expected.run_at <= now
        and not expected.is_vague
        and (expected.expires_at is None or expected.expires_at > now)
    )


def _names(expected: ExpectedJob) -> list[str]:
    names = [f"queue:{expected.queue}", f"task:{expected.type}"]
    return names if expected.concurrency_key is None else [*names, f"key:{expected.concurrency_key}"]


def _most_running(replay: Replay, name: str) -> int | None:
    limit = replay.limits.get(name)
    if not name.startswith("key:") or (limit is not None and limit["max_running"]):
        return None if limit is None else limit["max_running"]
    # Whatever the type of the job that has it, a key belongs to the task that makes such keys.
    _, *task, _value = name.split(":")
    limit = replay.limits.get(f"task:{task[0]}") if task else None
    return (None if limit is None else limit["per_key_max_running"]) or 1


def _check_rates(replay: Replay, record: Record, name: str, expected: ExpectedJob) -> None:
    """In no span of time more jobs start than the burst and one for each interval; if no clock was ever set."""
    limit = replay.limits.get(name)
    if limit is None or not limit["rates"] or replay.clock_disturbed_at >= 0:
        return
    starts = replay.limited_starts.setdefault(name, [])
    starts.append(record["clock"])
    for interval, burst in limit["rates"]:
        for number, begun in enumerate(reversed(starts), 1):
            if number > burst + (starts[-1] - begun) / interval:
                replay.flag("I13", f"{number} started within {starts[-1] - begun} us under {name}", record, expected)
                return

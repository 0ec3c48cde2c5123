"""Durable waits (I14), and what jobs take from the jobs before them (I15)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from simulation.checker.replay import Emitted, ExpectedJob, Replay, Wait
from simulation.checker.violations import Record


def on_begin_wait(replay: Replay, record: Record) -> None:
    """Replay the begin of a wait, or the return to it: it is over exactly if its event has come, or its time."""
    ask, got = record["ask"], record["got"]
    expected = _holder(replay, record)
    if expected is None:
        return
    wait = expected.steps.get(ask["key"])
    if wait is None:
        until = None if ask["span"] is None else record["clock"] + ask["span"]
        wait = expected.steps[ask["key"]] = Wait(ask["key"], ask["kind"], until, got["subject"])
        if got["until"] != until:
            replay.flag("I14", f"wait {wait.key!r} lasts until {got['until']}, not {until}", record, expected)
        if ask["child"] is not None:
            replay.create({**ask["child"], "id": got["subject"]}, record)
    elif got["subject"] != wait.subject:
        replay.flag("I14", f"wait {wait.key!r} was for {wait.subject}, and is for {got['subject']}", record, expected)
    _check_end(replay, record, expected, wait)
    wait.is_registered |= wait.kind == "event" and not wait.is_done


def _holder(replay: Replay, record: Record) -> ExpectedJob | None:
    """Return the job of a write of an attempt, if it was accepted; it must be accepted exactly if the lease holds."""
    ask, got = record["ask"], record["got"]
    expected = replay.jobs.get(ask["job"])
    if expected is None:
        return None
    expected.trail.append(record["number"])
    holds = expected.state == "running" and expected.fence == ask["fence"]
    if (got is not None) != holds:
        said = "refused" if holds else "accepted"
        words = f"a wait under fence {ask['fence']} was {said}; it was {expected.state} under {expected.fence}"
        replay.flag("I3", words, record, expected)
    return expected if got is not None and holds else None


def _check_end(replay: Replay, record: Record, expected: ExpectedJob, wait: Wait) -> None:
    got, now = record["got"], record["clock"]
    if wait.is_done:
        if wait.is_vague and got["is_done"] and got["outcome"] is None:
            wait.is_vague, wait.outcome = False, None
        if not got["is_done"] or got["outcome"] != wait.outcome:
            replay.flag(
                "I14", f"wait {wait.key!r} had ended with {wait.outcome}, and ends with {got}", record, expected
            )
        return
    emitted = replay.events.get(wait.subject) if wait.kind == "event" else None
    is_out = wait.until is not None and wait.until <= now
    ends = [(True, None)] if is_out else [(False, None)]
    if emitted is not None and emitted.expires_at > now:
        # An event that has expired once may have been deleted, whatever the clock was set to since.
        is_vague = emitted.expires_at <= replay.clock
        ends = [(True, emitted.payload), *(ends if is_vague else ())]
    if (got["is_done"], got["outcome"]) not in ends:
        found = f"{'over' if got['is_done'] else 'not over'} with {got['outcome']}"
        replay.flag("I14", f"wait {wait.key!r} for {wait.subject} is {found}; expected {ends}", record, expected)
    wait.is_done, wait.outcome = got["is_done"], got["outcome"]


def on_conclude(replay: Replay, record: Record) -> None:
    """Replay the end of a call: its outcome is the result of the child."""
    expected = _holder(replay, record)
    if expected is None:
        return
    wait = expected.steps.get(record["ask"]["key"])
    if wait is None or wait.is_done:
        return
    wait.is_done, wait.outcome = True, record["ask"]["outcome"]
    child = replay.jobs.get(wait.subject)
    if child is not None and (child.state != "completed" or wait.outcome != {"result": child.result}):
        words = f"passed on {wait.outcome}; job {child.id} is {child.state} with {child.result}"
        replay.flag("I15", words, record, expected, child)


def on_emit(replay: Replay, record: Record) -> None:
    """Replay an emission: it ends all waits for the event, and wakes the jobs that are suspended by them."""
    ask, now = record["ask"], record["clock"]
    known = replay.events.get(ask["name"])
    if known is not None and known.expires_at > max(now, replay.clock):
        replay.flag("I14", f"event {ask['name']!r} was emitted before, and emitted anew", record)
    replay.events[ask["name"]] = Emitted(ask["payload"], now + ask["keep"])
    if ask["entry"] is not None:
        replay.entries.append(ask["entry"])
    waits = [(expected, wait) for expected, wait in _open_waits(replay) if wait.subject == ask["name"]]
    _wake(replay, record, waits, ask["payload"], record["got"]["queues"])


def on_end_waits(replay: Replay, record: Record) -> None:
    """Replay the end of waits for events by their time."""
    now = record["clock"]
    waits = [(expected, wait) for expected, wait in _open_waits(replay) if wait.until is not None and wait.until <= now]
    _wake(replay, record, waits, None, record["got"])


def _open_waits(replay: Replay) -> list[tuple[ExpectedJob, Wait]]:
    return [(expected, wait) for expected in replay.jobs.values() for wait in expected.steps.values() if _is_open(wait)]


def _is_open(wait: Wait) -> bool:
    return wait.is_registered and not wait.is_done


def _wake(
    replay: Replay, record: Record, waits: list[tuple[ExpectedJob, Wait]], outcome: object, reported: dict[str, int]
) -> None:
    now = record["clock"]
    woken: Counter[str] = Counter()
    uncertain: Counter[str] = Counter()
    for expected, wait in waits:
        expected.trail.append(record["number"])
        # One whose time had come may have been ended before, if it woke no job: such an end is not in the history.
        wait.is_vague = outcome is not None and wait.until is not None and wait.until <= replay.clock
        wait.is_done, wait.outcome = True, outcome
        if expected.state == "blocked":
            woken[expected.queue] += 1
            uncertain[expected.queue] += wait.may_be_over
            expected.waits.clear()
            expected.run_at = expected.due_at = now
            replay.move(expected, "pending")
            expected.last_event = "wake"
    queues = woken.keys() | reported.keys()
    if any(not woken[one] - uncertain[one] <= reported.get(one, 0) <= woken[one] for one in queues):
        expected_jobs = [expected for expected, _ in waits]
        replay.flag("I14", f"woken were {reported}, and {dict(woken)} waited", record, *expected_jobs)


def suspend(replay: Replay, record: Record, expected: ExpectedJob, key: str) -> None:
    """Replay a suspension: the job is blocked, or pending if its wait has ended meanwhile."""
    wait = expected.steps.get(key)
    if wait is None:
        replay.flag("I14", f"suspended for {key!r}, which it does not wait for", record, expected)
        return
    expected.waits.clear()
    expected.wait = key
    wait.may_be_over = wait.kind == "event" and wait.until is not None and wait.until <= replay.clock
    if wait.is_done:
        replay.move(expected, "pending")
        return
    if wait.kind == "call":
        expected.waits[wait.subject] = "end"
        replay.children.setdefault(wait.subject, []).append(expected)
        replay.release([wait.subject], record["clock"])


def check_suspension(replay: Replay, record: Record, expected: ExpectedJob, settlement: dict[str, Any]) -> None:
    """A handler that sleeps wakes at the end of its sleep, and only a sleep has a time."""
    sleeps = [wait for wait in expected.steps.values() if wait.kind == "sleep" and not wait.is_done]
    if settlement["event"] == "snooze" and settlement.get("run_at") not in [wait.until for wait in sleeps]:
        replay.flag("I14", f"sleeps until {settlement.get('run_at')}, and was to until {sleeps}", record, expected)


def on_waited(replay: Replay, record: Record) -> None:
    """Check with what a handler went on after a wait."""
    expected = replay.jobs.get(record["job"])
    wait = None if expected is None else expected.steps.get(record["key"])
    if expected is None:
        return
    expected.trail.append(record["number"])
    value = record["value"]
    if wait is None:
        replay.flag("I14", f"went on after wait {record['key']!r}, which it never began", record, expected)
    elif isinstance(value, dict) and "failed" in value:
        child = replay.jobs.get(wait.subject)
        if child is not None and not child.has_failed:
            replay.flag("I15", f"was told that job {child.id} has failed; it is {child.state}", record, expected, child)
    elif not wait.is_done or value != wait.outcome:
        what = f"with {wait.outcome}" if wait.is_done else "not yet"
        replay.flag("I14", f"went on with {value} after wait {wait.key!r}, which ended {what}", record, expected)


# Inputs


def check_input(replay: Replay, record: Record, expected: ExpectedJob) -> None:
    """What a handler is given as its first argument is what the jobs before it have returned."""
    value = record["input"]
    parents = _parents(expected)
    if expected.takes == "failure":
        _check_failure(replay, record, expected, value)
        return
    values = value if expected.takes == "results" else [value]
    if len(values) != len(parents):
        replay.flag("I15", f"was given {len(values)} results of {len(parents)} jobs", record, expected)
        return
    for given, (parent_id, need) in zip(values, parents.items(), strict=True):
        parent = replay.jobs.get(parent_id)
        if parent is not None and not _may_give(parent, need, given):
            words = f"was given {given}; job {parent_id} is {parent.state} with {parent.result}"
            replay.flag("I15", words, record, expected, parent)


def _parents(expected: ExpectedJob) -> dict[int, str]:
    if expected.parents:
        return expected.parents
    return {} if expected.parent_id is None else {expected.parent_id: "end"}


def _may_give(parent: ExpectedJob, need: str, given: object) -> bool:
    if given is not None:
        return parent.state == "completed" and given == parent.result
    if parent.renewed_at >= 0:
        # It had ended without a result, or was skipped, before an operator had it run again.
        return True
    return (parent.state != "completed" or parent.result is None) and (need != "success" or parent.reason == "skipped")


def _check_failure(replay: Replay, record: Record, expected: ExpectedJob, failed_id: int | None) -> None:
    """The job that is named as the failed one is before this one, and has failed."""
    before = set()
    ahead = list(_parents(expected))
    while ahead:
        one = ahead.pop()
        if one not in before:
            before.add(one)
            ahead += _parents(replay.jobs[one]) if one in replay.jobs else []
    if failed_id is not None and (failed_id not in before or not replay.jobs[failed_id].has_failed):
        replay.flag("I15", f"was told that job {failed_id} has failed", record, expected)
    # One that an operator ran by hand did not wait for the jobs before it.
    if failed_id is None and expected.renewed_at < 0:
        direct = [replay.jobs[one] for one in _parents(expected) if one in replay.jobs]
        failed = [one for one in direct if _has_plainly_failed(one)]
        if failed:
            replay.flag(
                "I15", f"was told of no failure, and job {failed[0].id} has failed", record, expected, failed[0]
            )


def _has_plainly_failed(expected: ExpectedJob) -> bool:
    return (
        expected.state in {"dead", "cancelled"}
        and expected.reason not in {"skipped", "not_needed"}
        and expected.renewed_at < 0
    )


def check_refused_input(replay: Replay, record: Record, expected: ExpectedJob) -> None:
    """An input is refused only if a job before this one is gone, or has not succeeded although that was needed.

    The job before a follow-up stays until that has ended, unless an operator has it run again after that.
    """
    parents = _parents(expected)
    may_be_gone = expected.renewed_at >= 0 or bool(expected.parents)
    known = [(replay.jobs.get(one), need) for one, need in parents.items()]
    left = {job["id"] for job in replay.dump["jobs"]}
    is_excused = any(
        (may_be_gone and (parent is None or parent.id not in left))
        or (parent is not None and need == "success" and parent.state != "completed")
        for parent, need in known
    )
    if not is_excused:
        replay.flag("I15", "its input was refused, though all jobs before it are there", record, expected)

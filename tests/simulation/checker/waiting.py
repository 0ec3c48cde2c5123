"""Durable waits (I14), and what jobs take from the jobs before them (I15)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from simulation.checker.court import Court, Emitted, Twin, Wait
from simulation.checker.verdict import Record


def on_begin_wait(court: Court, record: Record) -> None:
    """Replay the begin of a wait, or the return to it: it is over exactly if its event has come, or its time."""
    ask, got = record["ask"], record["got"]
    twin = _holder(court, record)
    if twin is None:
        return
    wait = twin.steps.get(ask["key"])
    if wait is None:
        until = None if ask["span"] is None else record["clock"] + ask["span"]
        wait = twin.steps[ask["key"]] = Wait(ask["key"], ask["kind"], until, got["subject"])
        if got["until"] != until:
            court.blame("I14", f"wait {wait.key!r} lasts until {got['until']}, not {until}", record, twin)
        if ask["child"] is not None:
            court.create({**ask["child"], "id": got["subject"]}, record)
    elif got["subject"] != wait.subject:
        court.blame("I14", f"wait {wait.key!r} was for {wait.subject}, and is for {got['subject']}", record, twin)
    _judge_end(court, record, twin, wait)
    wait.is_registered |= wait.kind == "event" and not wait.is_done


def _holder(court: Court, record: Record) -> Twin | None:
    """Return the job of a write of an attempt, if it was accepted; it must be accepted exactly if the lease holds."""
    ask, got = record["ask"], record["got"]
    twin = court.jobs.get(ask["job"])
    if twin is None:
        return None
    twin.trail.append(record["number"])
    holds = twin.state == "running" and twin.fence == ask["fence"]
    if (got is not None) != holds:
        said = "refused" if holds else "accepted"
        words = f"a wait under fence {ask['fence']} was {said}; it was {twin.state} under {twin.fence}"
        court.blame("I3", words, record, twin)
    return twin if got is not None and holds else None


def _judge_end(court: Court, record: Record, twin: Twin, wait: Wait) -> None:
    got, now = record["got"], record["clock"]
    if wait.is_done:
        if wait.is_vague and got["is_done"] and got["outcome"] is None:
            wait.is_vague, wait.outcome = False, None
        if not got["is_done"] or got["outcome"] != wait.outcome:
            court.blame("I14", f"wait {wait.key!r} had ended with {wait.outcome}, and ends with {got}", record, twin)
        return
    emitted = court.events.get(wait.subject) if wait.kind == "event" else None
    is_out = wait.until is not None and wait.until <= now
    ends = [(True, None)] if is_out else [(False, None)]
    if emitted is not None and emitted.expires_at > now:
        # An event that has expired once may have been deleted, whatever the clock was set to since.
        is_vague = emitted.expires_at <= court.clock
        ends = [(True, emitted.payload), *(ends if is_vague else ())]
    if (got["is_done"], got["outcome"]) not in ends:
        found = f"{'over' if got['is_done'] else 'not over'} with {got['outcome']}"
        court.blame("I14", f"wait {wait.key!r} for {wait.subject} is {found}; expected {ends}", record, twin)
    wait.is_done, wait.outcome = got["is_done"], got["outcome"]


def on_conclude(court: Court, record: Record) -> None:
    """Replay the end of a call: its outcome is the result of the child."""
    twin = _holder(court, record)
    if twin is None:
        return
    wait = twin.steps.get(record["ask"]["key"])
    if wait is None or wait.is_done:
        return
    wait.is_done, wait.outcome = True, record["ask"]["outcome"]
    child = court.jobs.get(wait.subject)
    if child is not None and (child.state != "completed" or wait.outcome != {"result": child.result}):
        words = f"passed on {wait.outcome}; job {child.id} is {child.state} with {child.result}"
        court.blame("I15", words, record, twin, child)


def on_emit(court: Court, record: Record) -> None:
    """Replay an emission: it ends all waits for the event, and wakes the jobs that are suspended by them."""
    ask, now = record["ask"], record["clock"]
    known = court.events.get(ask["name"])
    if known is not None and known.expires_at > max(now, court.clock):
        court.blame("I14", f"event {ask['name']!r} was emitted before, and emitted anew", record)
    court.events[ask["name"]] = Emitted(ask["payload"], now + ask["keep"])
    if ask["entry"] is not None:
        court.entries.append(ask["entry"])
    waits = [(twin, wait) for twin, wait in _open_waits(court) if wait.subject == ask["name"]]
    _wake(court, record, waits, ask["payload"], record["got"]["queues"])


def on_end_waits(court: Court, record: Record) -> None:
    """Replay the end of waits for events by their time."""
    now = record["clock"]
    waits = [(twin, wait) for twin, wait in _open_waits(court) if wait.until is not None and wait.until <= now]
    _wake(court, record, waits, None, record["got"])


def _open_waits(court: Court) -> list[tuple[Twin, Wait]]:
    return [(twin, wait) for twin in court.jobs.values() for wait in twin.steps.values() if _is_open(wait)]


def _is_open(wait: Wait) -> bool:
    return wait.is_registered and not wait.is_done


def _wake(court: Court, record: Record, waits: list[tuple[Twin, Wait]], outcome: object, told: dict[str, int]) -> None:
    now = record["clock"]
    woken: Counter[str] = Counter()
    for twin, wait in waits:
        twin.trail.append(record["number"])
        # One whose time had come may have been ended before, if it woke nobody: such an end is not in the history.
        wait.is_vague = outcome is not None and wait.until is not None and wait.until <= court.clock
        wait.is_done, wait.outcome = True, outcome
        if twin.state == "blocked":
            woken[twin.queue] += 1
            twin.waits.clear()
            twin.run_at = twin.due_at = now
            court.move(twin, "pending")
            twin.last_event = "wake"
    if dict(woken) != told:
        twins = [twin for twin, _ in waits]
        court.blame("I14", f"woken were {told}, and {dict(woken)} waited", record, *twins)


def suspend(court: Court, record: Record, twin: Twin, key: str) -> None:
    """Replay a suspension: the job is blocked, or pending if its wait has ended meanwhile."""
    wait = twin.steps.get(key)
    if wait is None:
        court.blame("I14", f"suspended for {key!r}, which it does not wait for", record, twin)
        return
    twin.waits.clear()
    twin.wait = key
    if wait.is_done:
        court.move(twin, "pending")
        return
    if wait.kind == "call":
        twin.waits[wait.subject] = "end"
        court.children.setdefault(wait.subject, []).append(twin)
        court.release([wait.subject], record["clock"])


def judge_suspension(court: Court, record: Record, twin: Twin, told: dict[str, Any]) -> None:
    """A handler that sleeps wakes at the end of its sleep, and only a sleep has a time."""
    sleeps = [wait for wait in twin.steps.values() if wait.kind == "sleep" and not wait.is_done]
    if told["event"] == "snooze" and told.get("run_at") not in [wait.until for wait in sleeps]:
        court.blame("I14", f"sleeps until {told.get('run_at')}, and was to until {sleeps}", record, twin)


def on_waited(court: Court, record: Record) -> None:
    """Judge with what a handler went on after a wait."""
    twin = court.jobs.get(record["job"])
    wait = None if twin is None else twin.steps.get(record["key"])
    if twin is None:
        return
    twin.trail.append(record["number"])
    value = record["value"]
    if wait is None:
        court.blame("I14", f"went on after wait {record['key']!r}, which it never began", record, twin)
    elif isinstance(value, dict) and "failed" in value:
        child = court.jobs.get(wait.subject)
        if child is not None and not child.has_failed:
            court.blame("I15", f"was told that job {child.id} has failed; it is {child.state}", record, twin, child)
    elif not wait.is_done or value != wait.outcome:
        what = f"with {wait.outcome}" if wait.is_done else "not yet"
        court.blame("I14", f"went on with {value} after wait {wait.key!r}, which ended {what}", record, twin)


# Inputs


def judge_input(court: Court, record: Record, twin: Twin) -> None:
    """What a handler is given as its first argument is what the jobs before it have returned."""
    value = record["input"]
    parents = _parents(twin)
    if twin.takes == "failure":
        _judge_failure(court, record, twin, value)
        return
    values = value if twin.takes == "results" else [value]
    if len(values) != len(parents):
        court.blame("I15", f"was given {len(values)} results of {len(parents)} jobs", record, twin)
        return
    for given, (parent_id, need) in zip(values, parents.items(), strict=True):
        parent = court.jobs.get(parent_id)
        if parent is not None and not _may_give(parent, need, given):
            words = f"was given {given}; job {parent_id} is {parent.state} with {parent.result}"
            court.blame("I15", words, record, twin, parent)


def _parents(twin: Twin) -> dict[int, str]:
    if twin.parents:
        return twin.parents
    return {} if twin.parent_id is None else {twin.parent_id: "end"}


def _may_give(parent: Twin, need: str, given: object) -> bool:
    if given is not None:
        return parent.state == "completed" and given == parent.result
    if parent.renewed_at >= 0:
        # It had ended without a result, or was skipped, before an operator had it run again.
        return True
    return (parent.state != "completed" or parent.result is None) and (need != "success" or parent.reason == "skipped")


def _judge_failure(court: Court, record: Record, twin: Twin, failed_id: int | None) -> None:
    """The job that is named as the failed one is before this one, and has failed."""
    before = set()
    ahead = list(_parents(twin))
    while ahead:
        one = ahead.pop()
        if one not in before:
            before.add(one)
            ahead += _parents(court.jobs[one]) if one in court.jobs else []
    if failed_id is not None and (failed_id not in before or not court.jobs[failed_id].has_failed):
        court.blame("I15", f"was told that job {failed_id} has failed", record, twin)
    # One that an operator ran by hand did not wait for the jobs before it.
    if failed_id is None and twin.renewed_at < 0:
        direct = [court.jobs[one] for one in _parents(twin) if one in court.jobs]
        failed = [one for one in direct if _has_plainly_failed(one)]
        if failed:
            court.blame("I15", f"was told of no failure, and job {failed[0].id} has failed", record, twin, failed[0])


def _has_plainly_failed(twin: Twin) -> bool:
    return twin.state in {"dead", "cancelled"} and twin.reason not in {"skipped", "not_needed"} and twin.renewed_at < 0


def judge_refused_input(court: Court, record: Record, twin: Twin) -> None:
    """An input is refused only if a job before this one is gone, or has not succeeded although that was needed.

    The job before a follow-up stays until that has ended, unless an operator has it run again after that.
    """
    parents = _parents(twin)
    may_be_gone = twin.renewed_at >= 0 or bool(twin.parents)
    known = [(court.jobs.get(one), need) for one, need in parents.items()]
    left = {job["id"] for job in court.dump["jobs"]}
    is_excused = any(
        (may_be_gone and (parent is None or parent.id not in left))
        or (parent is not None and need == "success" and parent.state != "completed")
        for parent, need in known
    )
    if not is_excused:
        court.blame("I15", "its input was refused, though all jobs before it are there", record, twin)

"""Claims, renewals and promotions: I3 (fences), I5 (attempts), I7 (cancelled jobs), I9 (time and turn)."""

from __future__ import annotations

from typing import Any

from simulation.checker import limits
from simulation.checker.replay import TIMED, ExpectedJob, Replay
from simulation.checker.violations import Record


def on_claim(replay: Replay, record: Record) -> None:
    """Replay a claim: each job given must have been there to give, and nothing more urgent may have been left.

    A claim that gave something gives the same when it is repeated. One that gave nothing was as good as not made.
    """
    ask = record["ask"]
    earlier = replay.claims.setdefault(ask["claim_id"], {}) if ask["claim_id"] is not None else {}
    is_repeated = bool(earlier)
    given: list[tuple[ExpectedJob, dict[str, Any]]] = []
    for job in record["got"]:
        expected = replay.jobs.get(job["id"])
        if expected is None:
            replay.unknown_jobs.setdefault(job["id"], record)
        elif earlier.get(job["id"]) != job["fence"]:
            expected.trail.append(record["number"])
            # What the store remembers it forgets after a while, by its own clock; if that leaps, at once.
            if is_repeated and replay.clock_disturbed_at < replay.claimed_at[ask["claim_id"]]:
                replay.flag("I3", "a repeated claim gave what the first had not given", record, expected)
            _check_claim(replay, record, expected, job)
            given.append((expected, job))
    if not is_repeated and not replay.has_keys:
        _check_order(replay, record, [expected for expected, _ in given])
    for expected, job in given:
        _lease(replay, record, expected, job)
        earlier[expected.id] = job["fence"]
        replay.claimed_at.setdefault(ask["claim_id"], record["at"])
    if replay.has_keys:
        limits.check(replay, record, [expected for expected, _ in given])
        if not is_repeated:
            limits.check_turns(replay, record, [expected for expected, _ in given])


def _lease(replay: Replay, record: Record, expected: ExpectedJob, job: dict[str, Any]) -> None:
    replay.move(expected, "running")
    expected.fence, expected.attempts, expected.run_at = job["fence"], expected.attempts + 1, job["run_at"]
    expected.wait, expected.reason = None, None
    expected.lease_until, expected.holder, expected.last_event = job["lease_until"], record["ask"]["boot"], "claim"
    expected.claimed_at = expected.claims[expected.fence] = record["at"]
    expected.leased_at, expected.leased_for = record["at"], expected.lease_until - record["clock"]


def _check_claim(replay: Replay, record: Record, expected: ExpectedJob, job: dict[str, Any]) -> None:
    now = record["clock"]
    if job["fence"] <= expected.fence:
        replay.flag("I3", f"fence {job['fence']} after fence {expected.fence}", record, expected)
    if (wrong := _not_to_be_given(expected)) is not None:
        replay.flag(*wrong, record, expected)
    if expected.passed_over is not None:
        replay.flag("I9", expected.passed_over[1], expected.passed_over[0], expected)
        expected.passed_over = None
    early = max(job["run_at"], expected.run_at) - now
    if early > record["ask"].get("ahead", 0):
        replay.flag("I9", f"given out {early / 1e6:.6f} s before its time", record, expected)
    if expected.expires_at is not None and expected.expires_at <= max(now, expected.run_at):
        replay.flag("I9", "given out after it had expired", record, expected)
    _check_count(replay, record, expected, job["attempts"])


def _not_to_be_given(expected: ExpectedJob) -> tuple[str, str] | None:
    """Say which invariant forbids that a job is given out, and why."""
    if expected.reason == "skipped" or (expected.is_finished and expected.reason in {"workflow_failed", "replaced"}):
        return "I16", f"given out although it was cancelled: {expected.reason}"
    if expected.is_cancelled:
        return "I7", "given out after a cancel"
    if expected.is_finished:
        return "I6", f"given out although it was {expected.state}"
    if expected.state == "running":
        return "I3", f"given out while fence {expected.fence} was valid"
    if expected.wait is not None and expected.state == "blocked":
        if expected.steps[expected.wait].may_be_over:
            return None
        return "I14", f"given out while it waited for {expected.steps[expected.wait].subject}"
    return ("I10", "given out before those it waits for had ended") if expected.waits else None


def _check_count(replay: Replay, record: Record, expected: ExpectedJob, attempts: int) -> None:
    """Compare the count of attempts with our own: claims, less those that were handed back."""
    number = expected.attempts + 1
    if number > expected.max_attempts:
        replay.flag("I5", f"attempt {number} of {expected.max_attempts}", record, expected)
    elif attempts != number:
        invariant = "I12" if expected.last_event in {"release", "snooze", "postpone"} else "I5"
        if expected.last_event in {"suspend", "wake"}:
            invariant = "I14"
        replay.flag(invariant, f"counted as attempt {attempts}, it is attempt {number}", record, expected)


def _check_order(replay: Replay, record: Record, given: list[ExpectedJob]) -> None:
    """Nothing that could have been given, and whose turn was earlier, may have been left behind.

    What was left behind and never comes again is not out of order but lost, and that is another rule's to say.
    """
    ask, now = record["ask"], record["clock"]
    latest: dict[str, ExpectedJob] = {}
    for expected in given:
        if expected.queue not in latest or expected.turn > latest[expected.queue].turn:
            latest[expected.queue] = expected
    for left in replay.pending.values():
        if left.passed_over is not None or left in given or not limits.is_eligible(left, ask, now):
            continue
        if len(record["got"]) < ask["limit"]:
            left.passed_over = record, "left behind although there was room for it"
        elif any(expected.run_at > now for expected in given):
            left.passed_over = record, "left behind for a job whose time had not come"
        elif left.queue in latest and left.turn < latest[left.queue].turn:
            left.passed_over = record, f"left behind for job {latest[left.queue].id}, whose turn is later"


def on_renew(replay: Replay, record: Record) -> None:
    """Replay renewals: exactly the leases that hold are kept, and a cancel request is passed on."""
    answers = {(job_id, fence): (until, cancel) for job_id, fence, until, cancel in record["got"]}
    for job_id, fence in record["ask"]:
        expected = replay.jobs.get(job_id)
        if expected is None:
            continue
        expected.trail.append(record["number"])
        holds = expected.state == "running" and expected.fence == fence
        if (job_id, fence) not in answers:
            if holds:
                replay.flag("I3", f"a renewal under the valid fence {fence} was refused", record, expected)
            continue
        if not holds:
            replay.flag(
                "I3", f"renewed under fence {fence}; it is {expected.state} under {expected.fence}", record, expected
            )
            continue
        expected.lease_until, cancel = answers[job_id, fence]
        expected.leased_at, expected.leased_for = record["at"], expected.lease_until - record["clock"]
        if cancel:
            replay.told_to_stop.setdefault((job_id, fence), record["at"])
        if cancel != expected.is_cancelled:
            said = "told to stop without a cancel" if cancel else "not told of a cancel"
            replay.flag("I7", f"its worker was {said}", record, expected)


def on_promote(replay: Replay, record: Record) -> None:
    """Replay a promotion: the store says how many of each queue, the earliest first; which ones is for us to tell."""
    due: dict[str, list[ExpectedJob]] = {}
    for expected in replay.jobs.values():
        if expected.state in TIMED and expected.run_at <= record["clock"]:
            due.setdefault(expected.queue, []).append(expected)
    for queue, count in record["got"].items():
        ready = due.get(queue, [])
        if count > len(ready):
            replay.flag("I9", f"{count} jobs of {queue!r} promoted, due were {len(ready)}", record, *ready)
        for expected in ready:
            expected.trail.append(record["number"])
            replay.move(expected, "pending")
            expected.last_event = "due"
            expected.is_vague = count < len(ready)


def on_ask_cancel(replay: Replay, record: Record) -> None:
    """Replay cancel requests for running jobs."""
    for job_id, fence in record["ask"]["leases"]:
        expected = replay.jobs.get(job_id)
        if expected is None:
            continue
        expected.trail.append(record["number"])
        holds = expected.state == "running" and expected.fence == fence
        if (job_id in record["got"]) != holds:
            said = "refused" if holds else "accepted"
            replay.flag(
                "I3", f"a cancel under fence {fence} was {said}; {expected.state}, {expected.fence}", record, expected
            )
        elif holds:
            expected.is_cancelled = True
    if record["got"] and record["ask"]["entry"] is not None:
        replay.entries.append(record["ask"]["entry"])

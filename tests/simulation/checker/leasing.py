"""Claims, renewals and promotions: I3 (fences), I5 (attempts), I7 (cancelled jobs), I9 (time and turn)."""

from __future__ import annotations

from typing import Any

from simulation.checker import limits
from simulation.checker.court import TIMED, Court, Twin
from simulation.checker.verdict import Record


def on_claim(court: Court, record: Record) -> None:
    """Replay a claim: each job given must have been there to give, and nothing more urgent may have been left.

    A claim that gave something gives the same when it is repeated. One that gave nothing was as good as not made.
    """
    ask = record["ask"]
    earlier = court.claims.setdefault(ask["claim_id"], {}) if ask["claim_id"] is not None else {}
    is_repeated = bool(earlier)
    given: list[tuple[Twin, dict[str, Any]]] = []
    for job in record["got"]:
        twin = court.jobs.get(job["id"])
        if twin is None:
            court.strangers.setdefault(job["id"], record)
        elif earlier.get(job["id"]) != job["fence"]:
            twin.trail.append(record["number"])
            # What the store remembers it forgets after a while, by its own clock; if that leaps, at once.
            if is_repeated and court.clock_meddled_at < court.claimed_at[ask["claim_id"]]:
                court.blame("I3", "a repeated claim gave what the first had not given", record, twin)
            _judge_claim(court, record, twin, job)
            given.append((twin, job))
    if not is_repeated and not court.has_keys:
        _judge_order(court, record, [twin for twin, _ in given])
    for twin, job in given:
        _lease(court, record, twin, job)
        earlier[twin.id] = job["fence"]
        court.claimed_at.setdefault(ask["claim_id"], record["at"])
    if court.has_keys:
        limits.judge(court, record, [twin for twin, _ in given])
        if not is_repeated:
            limits.judge_turns(court, record, [twin for twin, _ in given])


def _lease(court: Court, record: Record, twin: Twin, job: dict[str, Any]) -> None:
    court.move(twin, "running")
    twin.fence, twin.attempts, twin.run_at = job["fence"], twin.attempts + 1, job["run_at"]
    twin.wait, twin.reason = None, None
    twin.lease_until, twin.holder, twin.last_event = job["lease_until"], record["ask"]["boot"], "claim"
    twin.claimed_at = twin.claims[twin.fence] = record["at"]
    twin.leased_at, twin.leased_for = record["at"], twin.lease_until - record["clock"]


def _judge_claim(court: Court, record: Record, twin: Twin, job: dict[str, Any]) -> None:
    now = record["clock"]
    if job["fence"] <= twin.fence:
        court.blame("I3", f"fence {job['fence']} after fence {twin.fence}", record, twin)
    if (wrong := _not_to_be_given(twin)) is not None:
        court.blame(*wrong, record, twin)
    if twin.passed_over is not None:
        court.blame("I9", twin.passed_over[1], twin.passed_over[0], twin)
        twin.passed_over = None
    early = max(job["run_at"], twin.run_at) - now
    if early > record["ask"].get("ahead", 0):
        court.blame("I9", f"given out {early / 1e6:.6f} s before its time", record, twin)
    if twin.expires_at is not None and twin.expires_at <= max(now, twin.run_at):
        court.blame("I9", "given out after it had expired", record, twin)
    _judge_count(court, record, twin, job["attempts"])


def _not_to_be_given(twin: Twin) -> tuple[str, str] | None:
    """Say which invariant forbids that a job is given out, and why."""
    if twin.reason == "skipped" or (twin.is_finished and twin.reason in {"workflow_failed", "replaced"}):
        return "I16", f"given out although it was cancelled: {twin.reason}"
    if twin.is_cancelled:
        return "I7", "given out after a cancel"
    if twin.is_finished:
        return "I6", f"given out although it was {twin.state}"
    if twin.state == "running":
        return "I3", f"given out while fence {twin.fence} was valid"
    if twin.wait is not None and twin.state == "blocked":
        return "I14", f"given out while it waited for {twin.steps[twin.wait].subject}"
    return ("I10", "given out before those it waits for had ended") if twin.waits else None


def _judge_count(court: Court, record: Record, twin: Twin, attempts: int) -> None:
    """Compare the count of attempts with our own: claims, less those that were handed back."""
    expected = twin.attempts + 1
    if expected > twin.max_attempts:
        court.blame("I5", f"attempt {expected} of {twin.max_attempts}", record, twin)
    elif attempts != expected:
        invariant = "I12" if twin.last_event in {"release", "snooze", "postpone"} else "I5"
        if twin.last_event in {"suspend", "wake"}:
            invariant = "I14"
        court.blame(invariant, f"counted as attempt {attempts}, it is attempt {expected}", record, twin)


def _judge_order(court: Court, record: Record, given: list[Twin]) -> None:
    """Nothing that could have been given, and whose turn was earlier, may have been left behind.

    What was left behind and never comes again is not out of order but lost, and that is another rule's to say.
    """
    ask, now = record["ask"], record["clock"]
    latest: dict[str, Twin] = {}
    for twin in given:
        if twin.queue not in latest or twin.turn > latest[twin.queue].turn:
            latest[twin.queue] = twin
    for left in court.pending.values():
        if left.passed_over is not None or left in given or not limits.is_eligible(left, ask, now):
            continue
        if len(record["got"]) < ask["limit"]:
            left.passed_over = record, "left behind although there was room for it"
        elif any(twin.run_at > now for twin in given):
            left.passed_over = record, "left behind for a job whose time had not come"
        elif left.queue in latest and left.turn < latest[left.queue].turn:
            left.passed_over = record, f"left behind for job {latest[left.queue].id}, whose turn is later"


def on_renew(court: Court, record: Record) -> None:
    """Replay renewals: exactly the leases that hold are kept, and a wish to cancel is passed on."""
    answers = {(job_id, fence): (until, cancel) for job_id, fence, until, cancel in record["got"]}
    for job_id, fence in record["ask"]:
        twin = court.jobs.get(job_id)
        if twin is None:
            continue
        twin.trail.append(record["number"])
        holds = twin.state == "running" and twin.fence == fence
        if (job_id, fence) not in answers:
            if holds:
                court.blame("I3", f"a renewal under the valid fence {fence} was refused", record, twin)
            continue
        if not holds:
            court.blame("I3", f"renewed under fence {fence}; it is {twin.state} under {twin.fence}", record, twin)
            continue
        twin.lease_until, cancel = answers[job_id, fence]
        twin.leased_at, twin.leased_for = record["at"], twin.lease_until - record["clock"]
        if cancel:
            court.told_to_stop.setdefault((job_id, fence), record["at"])
        if cancel != twin.is_cancelled:
            said = "told to stop without a cancel" if cancel else "not told of a cancel"
            court.blame("I7", f"its worker was {said}", record, twin)


def on_promote(court: Court, record: Record) -> None:
    """Replay a promotion: the store says how many of each queue, the earliest first; which ones is for us to tell."""
    due: dict[str, list[Twin]] = {}
    for twin in court.jobs.values():
        if twin.state in TIMED and twin.run_at <= record["clock"]:
            due.setdefault(twin.queue, []).append(twin)
    for queue, count in record["got"].items():
        ready = due.get(queue, [])
        if count > len(ready):
            court.blame("I9", f"{count} jobs of {queue!r} promoted, due were {len(ready)}", record, *ready)
        for twin in ready:
            twin.trail.append(record["number"])
            court.move(twin, "pending")
            twin.last_event = "due"
            twin.is_vague = count < len(ready)


def on_ask_cancel(court: Court, record: Record) -> None:
    """Replay wishes to cancel running jobs."""
    for job_id, fence in record["ask"]["leases"]:
        twin = court.jobs.get(job_id)
        if twin is None:
            continue
        twin.trail.append(record["number"])
        holds = twin.state == "running" and twin.fence == fence
        if (job_id in record["got"]) != holds:
            said = "refused" if holds else "accepted"
            court.blame("I3", f"a cancel under fence {fence} was {said}; {twin.state}, {twin.fence}", record, twin)
        elif holds:
            twin.is_cancelled = True
    if record["got"] and record["ask"]["entry"] is not None:
        court.entries.append(record["ask"]["entry"])

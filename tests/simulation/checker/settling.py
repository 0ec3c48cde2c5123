"""Settlements: I3 (stale writes), I5 (crashes), I6 (ends are final), I7 (cancels), I10 (follow-ups)."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from simulation.checker import waiting
from simulation.checker.court import FINISHED, TIMED, Court, Twin
from simulation.checker.verdict import Record

#: The life of a job as it was promised: which event leads from where to where.
MOVES: Final = {
    ("blocked", "cancel"): "cancelled",
    ("scheduled", "retry"): "pending",
    ("scheduled", "cancel"): "cancelled",
    ("pending", "cancel"): "cancelled",
    ("queued", "cancel"): "cancelled",
    ("running", "succeed"): "completed",
    ("running", "fail"): "retrying",
    ("running", "exhaust"): "dead",
    ("running", "expire"): "pending",
    ("running", "snooze"): "scheduled",
    ("running", "suspend"): "blocked",
    ("running", "release"): "pending",
    ("running", "postpone"): "scheduled",
    ("running", "cancel"): "cancelled",
    ("retrying", "retry"): "pending",
    ("retrying", "cancel"): "cancelled",
    ("dead", "retry"): "pending",
    ("cancelled", "retry"): "pending",
}
#: What a handler must have come to for this to be written, and who complains otherwise.
_YIELDED: Final = {
    "succeed": (frozenset({"succeeded"}), "I3"),
    "snooze": (frozenset({"snoozed", "suspended"}), "I12"),
    "suspend": (frozenset({"suspended"}), "I14"),
    "fail": (frozenset({"failed"}), "I12"),
    "exhausted": (frozenset({"failed"}), "I12"),
    "permanent": (frozenset({"failed"}), "I12"),
}
#: After so many lost leases a job is not tried again.
MOST_CRASHES: Final = 3


def on_settle(court: Court, record: Record) -> None:
    """Replay a batch of settlements."""
    answered: Counter[int] = Counter(record["got"])
    ended: list[Twin] = []
    suspended: list[tuple[Twin, str]] = []
    for told in record["ask"]["settlements"]:
        twin = court.jobs.get(told["id"])
        if twin is None:
            answered[told["id"]] = 0
            continue
        twin.trail.append(record["number"])
        holds = _holds(twin, told, record["clock"])
        if not _is_applied(record, told, answered, holds=holds):
            # What has ended may have been pruned since somebody looked at it.
            if holds and not twin.is_finished:
                court.blame("I3", f"a valid {told['event']} under fence {told['fence']} was refused", record, twin)
            continue
        answered[twin.id] -= 1
        (_judge if holds else _blame_stale)(court, record, twin, told)
        _apply(court, record, twin, told)
        if twin.is_finished:
            ended.append(twin)
        if "wait" in told:
            suspended.append((twin, told["wait"]))
    for job_id in answered.elements():
        court.blame("I3", f"job {job_id} was settled once more than it was asked for", record)
    # A batch is one transaction: those who wait are told when all of it is written.
    court.follow(ended, record["clock"])
    for twin, key in suspended:
        waiting.suspend(court, record, twin, key)
    if record["got"] and record["ask"]["entry"] is not None:
        court.entries.append(record["ask"]["entry"])


def _is_applied(record: Record, told: dict[str, Any], answered: Counter[int], *, holds: bool) -> bool:
    """Say whether the answer means this settlement.

    The answer names jobs, not fences: where a batch brings two settlements of one job, we believe that the right one
    was applied, as long as the count is right.
    """
    if answered[told["id"]] <= 0:
        return False
    is_ambiguous = sum(one["id"] == told["id"] for one in record["ask"]["settlements"]) > 1
    return holds or not is_ambiguous


def _holds(twin: Twin, told: dict[str, Any], now: int) -> bool:
    """Say whether a settlement is to be applied: where and whose the job was, and not again after a cancel.

    Whoever takes a job from a silent worker must not do so if the worker was heard of meanwhile.
    """
    if twin.is_vague and told["source"] in TIMED and told["fence"] == twin.fence:
        return True
    if twin.state != told["source"] or twin.fence != told["fence"]:
        return False
    if "lapsed_at" in told and (twin.lease_until != told["lapsed_at"] or twin.lease_until > now):
        return False
    return not (twin.state == "running" and twin.is_cancelled and told["target"] not in FINISHED)


def _blame_stale(court: Court, record: Record, twin: Twin, told: dict[str, Any]) -> None:
    words = f"{told['event']} from {told['source']} under {told['fence']}; it was {twin.state} under {twin.fence}"
    if told["source"] == "blocked" and twin.state != "blocked":
        court.blame("I10", f"still blocked although what it waited for had ended: {words}", record, twin)
    elif twin.is_finished:
        court.blame("I6", f"an end was overwritten: {words}", record, twin)
    elif "lapsed_at" in told and twin.fence == told["fence"] and twin.state == "running":
        left = (twin.lease_until - record["clock"]) / 1e6
        court.blame("I3", f"taken from a worker whose lease lasted {left:.6f} s longer", record, twin)
    elif twin.is_cancelled and told["target"] not in FINISHED and twin.fence == told["fence"]:
        court.blame("I7", f"sent back although it was cancelled: {words}", record, twin)
    else:
        court.blame("I3", f"a stale write was accepted: {words}", record, twin)


def _judge(court: Court, record: Record, twin: Twin, told: dict[str, Any]) -> None:
    event, now = told["event"], record["clock"]
    if MOVES.get((told["source"], event)) != told["target"]:
        court.blame("I6", f"{event} does not lead from {twin.state} to {told['target']}", record, twin)
    if twin.is_finished and record["ask"]["entry"] is None:
        court.blame("I6", f"{event} after its end, and nobody's act", record, twin)
    if told.get("crash") and twin.lease_until > now:
        left = (twin.lease_until - now) / 1e6
        court.blame("I3", f"taken from a worker whose lease lasted {left:.6f} s longer", record, twin)
    if event in {"expire", "fail"} and twin.attempts >= twin.max_attempts:
        court.blame("I5", f"sent back after attempt {twin.attempts} of {twin.max_attempts}", record, twin)
    if event == "expire" and twin.crashes + 1 >= MOST_CRASHES:
        court.blame("I5", f"sent back after crash {twin.crashes + 1}", record, twin)
    if event == "postpone" and twin.starts_under == twin.fence and court.clock_meddled_at < twin.claimed_at:
        court.blame("I12", "sent back to wait for its time, though a handler had begun", record, twin)
    if event == "exhaust" and told.get("reason") == "exhausted":
        _judge_end(court, record, twin)
    if twin.state == "running" and record["ask"]["entry"] is None and not told.get("crash"):
        _judge_outcome(court, record, twin, told)


def _judge_outcome(court: Court, record: Record, twin: Twin, told: dict[str, Any]) -> None:
    """What is written about an attempt is what it came to: nobody completes another's job or burns its attempt."""
    what = told.get("reason") if told["event"] == "exhaust" else told["event"]
    if what not in _YIELDED:
        return
    wanted, invariant = _YIELDED[what]
    came_to = court.ends.get((twin.id, told["fence"]), "nothing")
    if came_to == "nothing" and what == "permanent" and twin.takes is not None:
        waiting.judge_refused_input(court, record, twin)
        return
    if came_to == "suspended":
        waiting.judge_suspension(court, record, twin, told)
    result = told.get("result")
    if isinstance(result, dict) and result["by"] != [twin.id, told["fence"]]:
        court.blame("I15", f"settled with {result}, under fence {told['fence']}", record, twin)
    if came_to not in wanted:
        words = f"settled as {what} under fence {told['fence']}, where the handler came to {came_to}"
        court.blame(invariant, words, record, twin)


def _judge_end(court: Court, record: Record, twin: Twin) -> None:
    if twin.attempts < twin.max_attempts and twin.delivery == "at_least_once":
        court.blame("I5", f"given up after attempt {twin.attempts} of {twin.max_attempts}", record, twin)


def _apply(court: Court, record: Record, twin: Twin, told: dict[str, Any]) -> None:
    event = told["event"]
    _count(twin, told)
    if told.get("run_at") is not None:
        twin.run_at = twin.due_at = told["run_at"]
    is_requested = told.get("reason") == "cancel_requested" and told["source"] != "running"
    if event == "cancel" and (record["ask"]["entry"] is not None or is_requested):
        twin.is_cancelled = True
    if told.get("renew"):
        twin.is_cancelled, twin.cancel_heard_at, twin.expires_at = False, None, None
        twin.renewed_at = record["at"]
    twin.reason, twin.result = told.get("reason"), told.get("result")
    if event == "retry":
        twin.waits.clear()
    twin.last_event = event
    _judge_follow_up(court, record, twin, told)
    court.move(twin, told["target"])


def _count(twin: Twin, told: dict[str, Any]) -> None:
    """Count as was promised, whatever the settlement says: only what is handed back is given back.

    What was to be handed back and had been cancelled meanwhile ends, and is given back as well.
    """
    if told["event"] in {"release", "snooze", "postpone", "suspend"} or (
        told["event"] == "cancel" and told.get("refund")
    ):
        twin.attempts -= 1
    if told.get("crash"):
        twin.crashes += 1
    if told.get("renew"):
        twin.attempts, twin.crashes = 0, 0


def _judge_follow_up(court: Court, record: Record, twin: Twin, told: dict[str, Any]) -> None:
    """What a job asked to be submitted at its end comes with this end, and with no other."""
    has_failed = told["event"] == "exhaust" or (told["event"] == "cancel" and told.get("reason") == "expired")
    is_wanted = (told["event"] == "succeed" and twin.on_success) or (has_failed and twin.on_failure)
    follow_up = told.get("follow_up")
    if is_wanted != (follow_up is not None):
        said = "without the follow-up it asked for" if is_wanted else "with a follow-up nobody asked for"
        court.blame("I10", f"it ended ({told['event']}) {said}", record, twin)
    if follow_up is not None:
        if follow_up["id"] in court.jobs:
            court.blame("I10", f"its follow-up {follow_up['id']} was made before", record, twin)
        court.create(follow_up, record)


def on_settle_heard(court: Court, record: Record, ask: dict[str, Any]) -> None:
    """Note who knows of a cancel: from now on no handler may start."""
    for told in ask["settlements"]:
        twin = court.jobs.get(told["id"])
        if twin is not None and told["event"] == "cancel" and told["id"] in record["got"] and ask["entry"] is not None:
            twin.trail.append(record["number"])
            twin.cancel_heard_at = record["at"]

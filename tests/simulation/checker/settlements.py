"""Settlements: I3 (stale writes), I5 (crashes), I6 (ends are final), I7 (cancels), I10 (follow-ups)."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from simulation.checker import waits
from simulation.checker.replay import FINISHED, TIMED, ExpectedJob, Replay
from simulation.checker.violations import Record

#: The lifecycle of a job: which event leads from which state to which.
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
#: The outcomes of the handler with which this may be written, and the invariant that says so.
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


def on_settle(replay: Replay, record: Record) -> None:
    """Replay a batch of settlements."""
    answered: Counter[int] = Counter(record["got"])
    ended: list[ExpectedJob] = []
    suspended: list[tuple[ExpectedJob, str]] = []
    for settlement in record["ask"]["settlements"]:
        expected = replay.jobs.get(settlement["id"])
        if expected is None:
            answered[settlement["id"]] = 0
            continue
        expected.trail.append(record["number"])
        holds = _holds(expected, settlement, record["clock"])
        if not _is_applied(record, settlement, answered, holds=holds):
            # What has ended may have been pruned since it was read.
            if holds and not expected.is_finished:
                replay.flag(
                    "I3",
                    f"a valid {settlement['event']} under fence {settlement['fence']} was refused",
                    record,
                    expected,
                )
            continue
        answered[expected.id] -= 1
        (_check if holds else _flag_stale)(replay, record, expected, settlement)
        _apply(replay, record, expected, settlement)
        if expected.is_finished:
            ended.append(expected)
        if "wait" in settlement:
            suspended.append((expected, settlement["wait"]))
    for job_id in answered.elements():
        replay.flag("I3", f"job {job_id} was settled once more than it was asked for", record)
    # A batch is one transaction: jobs that wait are released when all of it is written.
    replay.follow(ended, record["clock"])
    for expected, key in suspended:
        waits.suspend(replay, record, expected, key)
    if record["got"] and record["ask"]["entry"] is not None:
        replay.entries.append(record["ask"]["entry"])


def _is_applied(record: Record, settlement: dict[str, Any], answered: Counter[int], *, holds: bool) -> bool:
    """Say whether the answer means this settlement.

    The answer names jobs, not fences: where a batch brings two settlements of one job, we believe that the right one
    was applied, as long as the count is right.
    """
    if answered[settlement["id"]] <= 0:
        return False
    is_ambiguous = sum(one["id"] == settlement["id"] for one in record["ask"]["settlements"]) > 1
    return holds or not is_ambiguous


def _holds(expected: ExpectedJob, settlement: dict[str, Any], now: int) -> bool:
    """Say whether a settlement is to be applied: where and whose the job was, and not again after a cancel.

    A reaper must not take a job whose worker has renewed meanwhile.
    """
    if expected.is_vague and settlement["source"] in TIMED and settlement["fence"] == expected.fence:
        return True
    if expected.state != settlement["source"] or expected.fence != settlement["fence"]:
        return False
    if "lapsed_at" in settlement and (expected.lease_until != settlement["lapsed_at"] or expected.lease_until > now):
        return False
    return not (expected.state == "running" and expected.is_cancelled and settlement["target"] not in FINISHED)


def _flag_stale(replay: Replay, record: Record, expected: ExpectedJob, settlement: dict[str, Any]) -> None:
    event = f"{settlement['event']} from {settlement['source']} under {settlement['fence']}"
    words = f"{event}; it was {expected.state} under {expected.fence}"
    if settlement["source"] == "blocked" and expected.state != "blocked":
        replay.flag("I10", f"still blocked although what it waited for had ended: {words}", record, expected)
    elif expected.is_finished:
        replay.flag("I6", f"an end was overwritten: {words}", record, expected)
    elif "lapsed_at" in settlement and expected.fence == settlement["fence"] and expected.state == "running":
        left = (expected.lease_until - record["clock"]) / 1e6
        replay.flag("I3", f"taken from a worker whose lease lasted {left:.6f} s longer", record, expected)
    elif expected.is_cancelled and settlement["target"] not in FINISHED and expected.fence == settlement["fence"]:
        replay.flag("I7", f"sent back although it was cancelled: {words}", record, expected)
    else:
        replay.flag("I3", f"a stale write was accepted: {words}", record, expected)


def _check(replay: Replay, record: Record, expected: ExpectedJob, settlement: dict[str, Any]) -> None:
    event, now = settlement["event"], record["clock"]
    if MOVES.get((settlement["source"], event)) != settlement["target"]:
        replay.flag("I6", f"{event} does not lead from {expected.state} to {settlement['target']}", record, expected)
    if expected.is_finished and record["ask"]["entry"] is None:
        replay.flag("I6", f"{event} after its end, and no operation", record, expected)
    if settlement.get("crash") and expected.lease_until > now:
        left = (expected.lease_until - now) / 1e6
        replay.flag("I3", f"taken from a worker whose lease lasted {left:.6f} s longer", record, expected)
    if event in {"expire", "fail"} and expected.attempts >= expected.max_attempts:
        replay.flag("I5", f"sent back after attempt {expected.attempts} of {expected.max_attempts}", record, expected)
    if event == "expire" and expected.crashes + 1 >= MOST_CRASHES:
        replay.flag("I5", f"sent back after crash {expected.crashes + 1}", record, expected)
    if (
        event == "postpone"
        and expected.starts_under == expected.fence
        and replay.clock_disturbed_at < expected.claimed_at
    ):
        replay.flag("I12", "sent back to wait for its time, though a handler had begun", record, expected)
    if event == "exhaust" and settlement.get("reason") == "exhausted":
        _check_end(replay, record, expected)
    if expected.state == "running" and record["ask"]["entry"] is None and not settlement.get("crash"):
        _check_outcome(replay, record, expected, settlement)


def _check_outcome(replay: Replay, record: Record, expected: ExpectedJob, settlement: dict[str, Any]) -> None:
    """What is written about an attempt is what it came to: it neither completes another job nor uses its attempt."""
    what = settlement.get("reason") if settlement["event"] == "exhaust" else settlement["event"]
    if what not in _YIELDED:
        return
    wanted, invariant = _YIELDED[what]
    came_to = replay.ends.get((expected.id, settlement["fence"]), "nothing")
    if came_to == "nothing" and what == "permanent" and expected.takes is not None:
        waits.check_refused_input(replay, record, expected)
        return
    if came_to == "suspended":
        waits.check_suspension(replay, record, expected, settlement)
    result = settlement.get("result")
    if isinstance(result, dict) and result["by"] != [expected.id, settlement["fence"]]:
        replay.flag("I15", f"settled with {result}, under fence {settlement['fence']}", record, expected)
    if came_to not in wanted:
        words = f"settled as {what} under fence {settlement['fence']}, where the handler came to {came_to}"
        replay.flag(invariant, words, record, expected)


def _check_end(replay: Replay, record: Record, expected: ExpectedJob) -> None:
    if expected.attempts < expected.max_attempts and expected.delivery == "at_least_once":
        replay.flag("I5", f"given up after attempt {expected.attempts} of {expected.max_attempts}", record, expected)


def _apply(replay: Replay, record: Record, expected: ExpectedJob, settlement: dict[str, Any]) -> None:
    event = settlement["event"]
    _count(expected, settlement)
    if settlement.get("run_at") is not None:
        expected.run_at = expected.due_at = settlement["run_at"]
    is_requested = settlement.get("reason") == "cancel_requested" and settlement["source"] != "running"
    if event == "cancel" and (record["ask"]["entry"] is not None or is_requested):
        expected.is_cancelled = True
    if settlement.get("renew"):
        expected.is_cancelled, expected.cancel_heard_at, expected.expires_at = False, None, None
        expected.renewed_at = record["at"]
    expected.reason, expected.result = settlement.get("reason"), settlement.get("result")
    if event == "retry":
        expected.waits.clear()
    expected.last_event = event
    _check_follow_up(replay, record, expected, settlement)
    replay.move(expected, settlement["target"])


def _count(expected: ExpectedJob, settlement: dict[str, Any]) -> None:
    """Count as was promised, whatever the settlement says: only what is handed back is given back.

    What was to be handed back and had been cancelled meanwhile ends, and is given back as well.
    """
    if settlement["event"] in {"release", "snooze", "postpone", "suspend"} or (
        settlement["event"] == "cancel" and settlement.get("refund")
    ):
        expected.attempts -= 1
    if settlement.get("crash"):
        expected.crashes += 1
    if settlement.get("renew"):
        expected.attempts, expected.crashes = 0, 0


def _check_follow_up(replay: Replay, record: Record, expected: ExpectedJob, settlement: dict[str, Any]) -> None:
    """What a job asked to be submitted at its end comes with this end, and with no other."""
    has_failed = settlement["event"] == "exhaust" or (
        settlement["event"] == "cancel" and settlement.get("reason") == "expired"
    )
    is_wanted = (settlement["event"] == "succeed" and expected.on_success) or (has_failed and expected.on_failure)
    follow_up = settlement.get("follow_up")
    if is_wanted != (follow_up is not None):
        said = "without the follow-up it asked for" if is_wanted else "with a follow-up that was not asked for"
        replay.flag("I10", f"it ended ({settlement['event']}) {said}", record, expected)
    if follow_up is not None:
        if follow_up["id"] in replay.jobs:
            replay.flag("I10", f"its follow-up {follow_up['id']} was made before", record, expected)
        replay.create(follow_up, record)


def on_settle_heard(replay: Replay, record: Record, ask: dict[str, Any]) -> None:
    """Note that a cancel was acknowledged: from now on no handler may start."""
    for settlement in ask["settlements"]:
        expected = replay.jobs.get(settlement["id"])
        if (
            expected is not None
            and settlement["event"] == "cancel"
            and settlement["id"] in record["got"]
            and ask["entry"] is not None
        ):
            expected.trail.append(record["number"])
            expected.cancel_heard_at = record["at"]

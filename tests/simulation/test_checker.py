"""The checker, on histories made by hand: each shows one invariant broken and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from simulation import checker
from simulation.checker import INVARIANTS
from simulation.checker import check as check_history
from simulation.checker.fire_times import interval_of

SECOND = 1_000_000
EMPTY: dict[str, Any] = {
    "jobs": [],
    "schedules": [],
    "census": {"living": [], "finished": {}, "pruned": {}},
    "ledger": [],
    "damage": [],
}


class Story:
    """Tells a history record by record, and keeps the dump that would be true."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.seconds = 0
        self.jobs: dict[int, dict[str, Any]] = {}
        self.lease_until = 0

    def tell(self, kind: str, **fields: Any) -> None:  # noqa: ANN401 - whatever the kind has
        self.seconds += 1
        self.records.append({"number": len(self.records), "at": self.seconds * SECOND, "kind": kind, **fields})

    def apply(self, verb: str, ask: object, got: object) -> None:
        clock = (self.seconds + 1) * SECOND
        self.tell("apply", call=len(self.records), copy=1, host="h", verb=verb, clock=clock, ask=ask, got=got)

    def insert(self, job_id: int = 1, receipt: str = "created", **more: Any) -> None:  # noqa: ANN401 - parts of a job
        asked: dict[str, Any] = {
            "id": job_id,
            "queue": "q",
            "type": "t",
            "priority": 5,
            "run_at": None,
            "expires_at": None,
            "max_attempts": 3,
            "delivery": "at_least_once",
            "key": None,
            "after": [],
            "on_success": False,
            "on_failure": False,
            "parent_id": None,
            "schedule_id": None,
            "fire_time": None,
            "submission": None,
        }
        asked |= more
        state = "pending" if asked["run_at"] is None else "scheduled"
        self.apply("insert", [asked], [[job_id, receipt, state]])
        if receipt == "created":
            self.jobs[job_id] = asked | {"state": state, "fence": 0, "attempts": 0}

    def claim(self, job_id: int = 1, *, fence: int | None = None, attempts: int | None = None, ahead: int = 0) -> None:
        job = self.jobs[job_id]
        job["fence"] = job["fence"] + 1 if fence is None else fence
        job["attempts"] = job["attempts"] + 1 if attempts is None else attempts
        job["state"] = "running"
        ask: dict[str, Any] = {
            "worker": "w",
            "boot": "w.1",
            "limit": 1,
            "queues": ["q"],
            "types": None,
            "claim_id": None,
        }
        ask["ahead"] = ahead
        given = {name: job[name] for name in ("id", "fence", "attempts")}
        self.lease_until = (self.seconds + 15) * SECOND
        given |= {"crashes": 0, "run_at": job["run_at"] or 0, "lease_until": self.lease_until}
        self.apply("claim", ask, [given])

    def settle(self, event: str, target: str, job_id: int = 1, *, entry: list[str] | None = None, **more: Any) -> None:  # noqa: ANN401
        """Settle as the handler would have it; told apart from it, a story says so by `tell_settlement`."""
        came_to = {"succeed": "succeeded", "fail": "failed"}.get(event)
        if came_to is not None:
            self.end(came_to, job_id)
        self.tell_settlement(event, target, job_id, entry=entry, **more)

    def end(self, outcome: str, job_id: int = 1, *, deaf: bool = False) -> None:
        fence = self.jobs[job_id]["fence"]
        self.tell("end", host="w", boot="w.1", job=job_id, fence=fence, outcome=outcome, deaf=deaf)

    def tell_settlement(
        self,
        event: str,
        target: str,
        job_id: int = 1,
        *,
        entry: list[str] | None = None,
        **more: Any,  # noqa: ANN401 - parts of a settlement
    ) -> None:
        job = self.jobs[job_id]
        told = {"id": job_id, "fence": job["fence"], "source": job["state"], "target": target, "event": event} | more
        self.apply("settle", {"settlements": [told], "entry": entry}, [job_id])
        job["state"] = target

    def check(self, **changes: Any) -> list[str]:  # noqa: ANN401 - parts of a dump
        finished: dict[str, int] = {}
        living: list[list[Any]] = []
        for job in self.jobs.values():
            if job["state"] in {"completed", "dead", "cancelled"}:
                finished[job["state"]] = finished.get(job["state"], 0) + 1
            else:
                living.append(["q", "t", job["state"], 1])
        census = {"living": living, "finished": finished, "pruned": {}}
        self.tell("end_of_run", clock=self.seconds * SECOND)
        return check_history(
            self.records, EMPTY | {"jobs": list(self.jobs.values()), "census": census} | changes
        ).violated


def key(body: str) -> list[Any]:
    return ["scope", "key", body, 1000 * SECOND]


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_plain_life_is_clean(story: Story) -> None:
    story.insert()
    story.claim()
    story.tell("start", host="w", boot="w.1", job=1, fence=1)
    story.settle("fail", "retrying", run_at=5 * SECOND)
    story.apply("promote", 100, {"q": 1})
    story.jobs[1]["state"] = "pending"
    story.claim()
    story.settle("succeed", "completed")
    assert story.check() == []


def test_a_job_that_never_ends_breaks_i1(story: Story) -> None:
    story.insert()
    assert story.check() == ["I1"]


def test_a_job_that_was_accepted_and_never_stored_breaks_i1(story: Story) -> None:
    story.tell("accepted", host="c", job=7)
    assert story.check() == ["I1"]


def test_a_job_that_is_not_there_breaks_i1(story: Story) -> None:
    story.insert()
    story.jobs.clear()
    assert story.check() == ["I1"]


def test_two_jobs_of_one_key_break_i2(story: Story) -> None:
    story.insert(1, key=key("b"))
    story.insert(2, key=key("b"))
    for job_id in (1, 2):
        story.claim(job_id)
        story.settle("succeed", "completed", job_id)
    assert story.check() == ["I2"]


def test_another_body_under_one_key_breaks_i2_if_it_is_taken_for_the_same(story: Story) -> None:
    story.insert(1, key=key("b"))
    story.insert(1, "replayed", key=key("other"))
    story.claim()
    story.settle("succeed", "completed")
    assert story.check() == ["I2"]


def test_a_second_job_of_one_submission_breaks_i2(story: Story) -> None:
    story.insert(1, submission="submission-1")
    story.insert(2, submission="submission-1")
    for job_id in (1, 2):
        story.claim(job_id)
        story.settle("succeed", "completed", job_id)
    assert story.check() == ["I2"]


def test_a_submission_that_is_refused_its_own_job_breaks_i2(story: Story) -> None:
    story.insert(1, key=key("b"), submission="submission-1")
    story.insert(1, "key_reused", key=key("other"), submission="submission-1")
    story.claim()
    story.settle("succeed", "completed")
    assert story.check() == ["I2"]


def test_a_submission_may_be_repeated_once_its_first_job_is_over(story: Story) -> None:
    for job_id in (1, 2):
        story.insert(job_id, submission="submission-1")
        story.claim(job_id)
        story.settle("succeed", "completed", job_id)
    assert story.check() == []


def test_a_success_that_no_handler_came_to_breaks_i3(story: Story) -> None:
    story.insert()
    story.claim()
    story.tell_settlement("succeed", "completed")
    assert story.check() == ["I3"]


def test_a_fence_that_does_not_grow_breaks_i3(story: Story) -> None:
    story.insert()
    story.claim()
    story.settle("release", "pending", refund=True)
    story.claim(fence=1, attempts=1)
    story.settle("succeed", "completed")
    assert story.check() == ["I3"]


def test_a_valid_renewal_that_is_refused_breaks_i3(story: Story) -> None:
    story.insert()
    story.claim()
    story.apply("renew", [[1, 1]], [])
    story.settle("succeed", "completed")
    assert story.check() == ["I3"]


def test_a_second_start_breaks_i4_where_one_was_promised(story: Story) -> None:
    story.insert(delivery="at_most_once")
    story.claim()
    for _ in range(2):
        story.tell("start", host="w", boot="w.1", job=1, fence=1)
    story.settle("succeed", "completed")
    assert story.check() == ["I4"]


def test_one_attempt_too_many_breaks_i5(story: Story) -> None:
    story.insert(max_attempts=1)
    story.claim()
    story.settle("fail", "retrying", run_at=SECOND)
    story.jobs[1]["attempts"] = 1
    assert story.check()[0] == "I5"


def test_an_end_that_changes_breaks_i6(story: Story) -> None:
    story.insert()
    story.claim()
    story.settle("succeed", "completed")
    story.jobs[1]["state"] = "dead"
    assert story.check() == ["I6"]


def test_a_retry_that_nobody_asked_for_breaks_i6(story: Story) -> None:
    story.insert()
    story.claim()
    story.end("failed")
    story.settle("exhaust", "dead", reason="permanent")
    story.settle("retry", "pending", run_at=SECOND, renew=True)
    story.jobs[1]["attempts"] = 0
    story.claim()
    story.settle("succeed", "completed")
    assert story.check() == ["I6"]


def test_a_start_after_a_cancel_was_acknowledged_breaks_i7(story: Story) -> None:
    story.insert()
    story.claim()
    story.settle("release", "pending", refund=True)
    story.jobs[1]["attempts"] = 0
    entry = ["operator", "job.cancel", "1"]
    told = {"id": 1, "fence": 1, "source": "pending", "target": "cancelled", "event": "cancel"}
    ask = {"settlements": [told], "entry": entry}
    story.tell("invoke", call=77, host="c", boot="c.1", verb="settle", ask=ask)
    story.apply("settle", ask, [1])
    story.tell("ok", call=77, host="c", verb="settle", got=[1])
    story.jobs[1]["state"] = "cancelled"
    story.tell("start", host="w", boot="w.1", job=1, fence=1)
    assert story.check(ledger=[entry]) == ["I7"]


@pytest.mark.parametrize(
    ("seconds", "deaf", "violated"), [(3, False, ["I7"]), (0, False, []), (3, True, [])], ids=["late", "soon", "deaf"]
)
def test_a_handler_that_works_on_after_a_cancel_breaks_i7(
    story: Story,
    seconds: int,
    deaf: bool,  # noqa: FBT001 - a parameter of the test
    violated: list[str],
) -> None:
    story.insert()
    story.claim()
    story.seconds += 100
    entry = ["operator", "job.cancel", "1"]
    story.apply("ask_cancel", {"leases": [[1, 1]], "entry": entry}, [1])
    story.apply("renew", [[1, 1]], [[1, 1, 300 * SECOND, True]])
    story.seconds += seconds
    story.end("succeeded", deaf=deaf)
    story.tell_settlement("succeed", "completed")
    assert story.check(ledger=[entry]) == violated


def test_a_job_of_a_fire_time_that_was_made_apart_breaks_i8(story: Story) -> None:
    story.insert(schedule_id=1, fire_time=7 * SECOND)
    story.claim()
    story.settle("succeed", "completed")
    assert story.check() == ["I8"]


def test_a_fire_time_of_which_nothing_became_breaks_i8(story: Story) -> None:
    schedule = every_seven_seconds()
    story.apply("put_schedules", [schedule], [1])
    left = schedule | {"next_fire_at": 21 * SECOND, "occurrences": [[7 * SECOND, "overlapped", None]]}
    assert story.check(schedules=[left]) == ["I8"]


def every_seven_seconds(**more: Any) -> dict[str, Any]:  # noqa: ANN401 - parts of a schedule
    return {
        "id": 1,
        "rule": "@every 7s",
        "version": 0,
        "catch_up": "all",
        "catch_up_limit": 5,
        "grace": SECOND,
        "end_at": None,
        "paused": False,
        "next_fire_at": 7 * SECOND,
    } | more


@pytest.mark.parametrize(
    ("catch_up", "fates", "violated"),
    [
        ("skip", ["overlapped", "overlapped"], ["I8"]),
        ("skip", ["missed", "missed"], []),
        ("latest", ["missed", "overlapped"], []),
        ("latest", ["overlapped", "overlapped"], ["I8"]),
        ("latest", ["missed", "missed"], ["I8"]),
        ("latest", ["overlapped", "missed"], ["I8"]),
        ("all", ["overlapped", "overlapped"], []),
        ("all", ["missed", "overlapped"], ["I8"]),
    ],
)
def test_a_catch_up_that_does_not_follow_its_policy_breaks_i8(
    story: Story, catch_up: str, fates: list[str], violated: list[str]
) -> None:
    schedule = every_seven_seconds(catch_up=catch_up)
    story.apply("put_schedules", [schedule], [1])
    story.seconds = 15
    occurrences = [[7 * (number + 1) * SECOND, fate, None] for number, fate in enumerate(fates)]
    firing = {"schedule_id": 1, "version": 1, "planned_for": 7 * SECOND, "is_backfill": False, "jobs": []}
    firing |= {"occurrences": occurrences, "next_fire_at": 21 * SECOND, "cancels": []}
    story.apply("fire", [firing], [])
    left = schedule | {"next_fire_at": 21 * SECOND, "occurrences": occurrences}
    assert story.check(schedules=[left]) == violated


@pytest.mark.parametrize("step", [3600, 0], ids=["set ahead", "right"])
def test_a_lease_that_is_taken_because_the_clock_was_set_ahead_breaks_g5(story: Story, step: int) -> None:
    story.insert()
    story.claim()
    story.tell("fault", fault="store_clock", phase="begin", target="store", detail="ahead")
    story.seconds += 0 if step else 15
    job = story.jobs[1]
    told = {"id": 1, "fence": 1, "source": "running", "target": "pending", "event": "expire"}
    told |= {"crash": True, "lapsed_at": story.lease_until}
    ask = {"settlements": [told], "entry": None}
    clock = (story.seconds + step) * SECOND
    story.tell("apply", call=9, copy=1, host="s", verb="settle", clock=clock, ask=ask, got=[1])
    job["state"] = "pending"
    story.claim()
    story.settle("succeed", "completed")
    assert story.check() == (["G5"] if step else [])


def test_a_lease_that_was_given_before_its_reaper_started_may_be_taken(story: Story) -> None:
    story.insert()
    story.claim()
    story.tell("fault", fault="store_clock", phase="begin", target="store", detail="ahead")
    story.tell("boot", host="s", boot="s.2")
    told = {"id": 1, "fence": 1, "source": "running", "target": "pending", "event": "expire"}
    told |= {"crash": True, "lapsed_at": story.lease_until}
    ask = {"settlements": [told], "entry": None}
    story.tell("apply", call=9, copy=1, host="s", verb="settle", clock=3600 * SECOND, ask=ask, got=[1])
    story.jobs[1]["state"] = "pending"
    story.claim()
    story.settle("succeed", "completed")
    assert story.check() == []


@pytest.mark.parametrize(
    ("seconds", "is_armed_again", "violated"), [(40, False, ["G6"]), (8, False, []), (40, True, [])], ids=str
)
def test_a_schedule_that_stays_armed_for_a_time_that_has_moved_away_breaks_g6(
    story: Story,
    seconds: int,
    is_armed_again: bool,  # noqa: FBT001 - a parameter of the test
    violated: list[str],
) -> None:
    hour = 3600 * SECOND
    story.seconds = 1
    schedule = every_seven_seconds(next_fire_at=7 * SECOND + 514 * 7 * SECOND, end_at=2 * hour)
    story.apply("put_schedules", [schedule], [1])
    if is_armed_again:
        story.apply("put_schedules", [schedule | {"next_fire_at": 7 * SECOND, "version": 1}], [1])
    for second in range(seconds):
        clock = (second % 4) * SECOND
        story.tell("apply", call=9, copy=1, host="s", verb="promote", clock=clock, ask=1, got={})
    assert story.check(schedules=[schedule | {"occurrences": []}]) == violated


def test_a_job_before_its_time_breaks_i9(story: Story) -> None:
    story.insert(run_at=100 * SECOND)
    story.claim()
    story.settle("succeed", "completed")
    assert story.check() == ["I9"]


def test_a_job_claimed_ahead_of_its_time_and_begun_at_it_is_clean(story: Story) -> None:
    story.insert(run_at=4 * SECOND)
    story.claim(ahead=2 * SECOND)
    story.tell("fault", fault="terminate", phase="begin", target="w", detail="")
    story.tell("start", host="w", boot="w.1", job=1, fence=1)
    story.settle("succeed", "completed")
    assert story.check() == []


def test_a_job_claimed_further_ahead_than_was_asked_for_breaks_i9(story: Story) -> None:
    story.insert(run_at=4 * SECOND)
    story.claim(ahead=SECOND)
    story.settle("succeed", "completed")
    assert story.check() == ["I9"]


def test_a_job_claimed_ahead_of_its_time_and_begun_before_it_breaks_i9(story: Story) -> None:
    story.insert(run_at=4 * SECOND)
    story.claim(ahead=2 * SECOND)
    story.tell("start", host="w", boot="w.1", job=1, fence=1)
    story.settle("succeed", "completed")
    assert story.check() == ["I9"]


def test_a_job_claimed_ahead_of_its_time_while_another_was_due_breaks_i9(story: Story) -> None:
    story.insert(1, run_at=4 * SECOND, priority=10)
    story.insert(2)
    story.claim(1, ahead=2 * SECOND)
    story.settle("succeed", "completed")
    story.claim(2)
    story.settle("succeed", "completed", 2)
    assert story.check() == ["I9"]


def test_a_job_that_began_and_was_sent_back_to_wait_for_its_time_breaks_i12(story: Story) -> None:
    story.insert(run_at=4 * SECOND)
    story.claim(ahead=2 * SECOND)
    story.tell("fault", fault="terminate", phase="begin", target="w", detail="")
    story.tell("start", host="w", boot="w.1", job=1, fence=1)
    story.tell_settlement("postpone", "scheduled", refund=True)
    story.jobs[1]["attempts"] = 0
    assert "I12" in story.check()


def test_a_job_left_behind_for_a_later_one_breaks_i9(story: Story) -> None:
    story.insert(1)
    story.insert(2)
    for job_id in (2, 1):
        story.claim(job_id)
        story.settle("succeed", "completed", job_id)
    assert story.check() == ["I9"]


def test_a_follow_up_that_was_not_made_breaks_i10(story: Story) -> None:
    story.insert(on_success=True)
    story.claim()
    story.settle("succeed", "completed")
    assert story.check() == ["I10"]


def test_a_job_that_ended_by_itself_breaks_i11(story: Story) -> None:
    story.insert()
    story.jobs[1]["state"] = "cancelled"
    assert story.check()[0] == "I11"


def test_damage_breaks_i11(story: Story) -> None:
    assert story.check(damage=["row 7 missing from index job_turn"]) == ["I11"]


def test_a_process_that_leaves_a_job_to_its_lease_breaks_i12(story: Story) -> None:
    story.insert()
    story.claim()
    story.seconds += 100
    story.tell("sigterm", host="w", boot="w.1", grace=5 * SECOND)
    story.tell("exit", host="w", boot="w.1")
    story.settle("succeed", "completed")
    assert story.check() == ["I12"]


def test_a_process_that_stays_longer_than_its_grace_breaks_i12(story: Story) -> None:
    story.seconds += 100
    story.tell("sigterm", host="w", boot="w.1", grace=5 * SECOND)
    story.seconds += 10
    story.tell("exit", host="w", boot="w.1")
    assert story.check() == ["I12"]


def test_a_handler_that_begins_after_the_word_to_end_breaks_i12(story: Story) -> None:
    story.insert()
    story.claim()
    story.seconds += 100
    story.tell("sigterm", host="w", boot="w.1", grace=5 * SECOND)
    story.tell("start", host="w", boot="w.1", job=1, fence=1)
    story.settle("succeed", "completed")
    assert story.check() == ["I12"]


@pytest.mark.parametrize("reason", ["exhausted", "permanent"])
def test_an_attempt_that_was_interrupted_and_counts_as_failed_breaks_i12(story: Story, reason: str) -> None:
    story.insert(max_attempts=1)
    story.claim()
    story.end("released")
    story.tell_settlement("exhaust", "dead", reason=reason)
    assert story.check() == ["I12"]


@pytest.mark.parametrize(("seconds", "violated"), [(100, ["G4"]), (5, [])], ids=["long after", "in its aftermath"])
def test_a_lease_lost_long_after_the_last_fault_breaks_g4(story: Story, seconds: int, violated: list[str]) -> None:
    story.insert()
    for phase in ("begin", "end"):
        story.tell("fault", fault="pause", phase=phase, target="w", detail="")
    story.seconds += seconds
    story.claim()
    story.seconds += 30
    story.settle("expire", "pending", crash=True, lapsed_at=story.lease_until)
    story.claim()
    story.settle("succeed", "completed")
    assert story.check() == violated


def test_a_lease_lost_without_a_fault_breaks_g4(story: Story) -> None:
    story.insert()
    story.claim()
    story.seconds += 30
    story.settle("expire", "pending", crash=True, lapsed_at=story.lease_until)
    story.claim()
    story.settle("succeed", "completed")
    assert story.check() == ["G4"]


def limit(name: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - parts of a limit
    return {"name": name, "max_running": None, "rates": [], "per_key_max_running": None, "order": None} | more


def finish(story: Story, *job_ids: int) -> None:
    for job_id in job_ids:
        story.settle("succeed", "completed", job_id)


def test_more_of_a_key_than_its_limit_allows_break_i13(story: Story) -> None:
    story.tell("limits", limits=[limit("key:k", max_running=1)])
    story.insert(1, concurrency_key="k")
    story.insert(2, concurrency_key="k")
    story.claim(1)
    story.claim(2)
    finish(story, 1, 2)
    assert story.check() == ["I13"]


def test_a_start_under_a_closed_limit_breaks_i13(story: Story) -> None:
    story.tell("limits", limits=[limit("queue:q", closed_until=60 * SECOND)])
    story.insert()
    story.claim()
    finish(story, 1)
    assert story.check() == ["I13"]


def test_a_start_before_an_earlier_job_of_a_strict_order_has_ended_breaks_i13(story: Story) -> None:
    story.tell("limits", limits=[limit("key:k", order="strict")])
    story.insert(1, concurrency_key="k")
    story.insert(2, concurrency_key="k")
    for job_id in (2, 1):
        story.claim(job_id)
        finish(story, job_id)
    assert story.check() == ["I13"]


def test_a_key_that_is_overtaken_for_more_than_a_round_breaks_g7(story: Story) -> None:
    story.tell("limits", limits=[])
    for job_id in range(1, 6):
        story.insert(job_id, concurrency_key="one" if job_id == 1 else "other")
    for job_id in (2, 3, 4, 5):
        story.claim(job_id)
        finish(story, job_id)
    story.claim(1)
    finish(story, 1)
    assert story.check() == ["G7"]


def test_a_job_of_another_key_that_starts_again_keeps_its_turn(story: Story) -> None:
    story.tell("limits", limits=[])
    story.insert(1, concurrency_key="one")
    story.insert(2, concurrency_key="other")
    for _ in range(2):
        story.claim(2)
        story.settle("fail", "retrying", 2, run_at=0)
        story.apply("promote", 100, {"q": 1})
        story.jobs[2]["state"] = "pending"
    story.claim(2)
    finish(story, 2)
    story.claim(1)
    finish(story, 1)
    assert story.check() == []


def test_a_key_with_a_permit_that_is_left_behind_breaks_g7(story: Story) -> None:
    story.tell("limits", limits=[])
    story.insert(1, concurrency_key="k")
    ask = {"worker": "w", "boot": "w.1", "limit": 2, "queues": ["q"], "types": None, "claim_id": None, "ahead": 0}
    story.apply("claim", ask, [])
    story.claim(1)
    finish(story, 1)
    assert story.check() == ["G7"]


def test_every_invariant_has_a_sentence() -> None:
    assert list(INVARIANTS) == [*(f"I{number}" for number in range(1, 17)), "G4", "G5", "G6", "G7"]


@pytest.mark.parametrize(
    ("rule", "seconds"), [("*/10 * * * * *", 10), ("@every 7s", 7), ("* * * * *", 60), ("*/30 * * * * *", 30)]
)
def test_the_rules_that_worlds_use_are_understood(rule: str, seconds: int) -> None:
    assert interval_of(rule) == seconds * SECOND


def test_the_checker_imports_nothing_of_rota() -> None:
    folder = Path(checker.__file__).parent
    for file in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            foreign = [name for name in names if name.split(".")[0] == "rota"]
            inside = [
                name for name in names if name.startswith("simulation") and not name.startswith("simulation.checker")
            ]
            assert not foreign, f"{file.name} imports {foreign}"
            assert not inside, f"{file.name} imports {inside}, which may import rota"

from __future__ import annotations

from datetime import timedelta

from builders import BASE, HOUR, MINUTE, SECOND
from rota.core.backlog import Backlog, start_rate
from rota.core.history import Bucket, Tally
from rota.core.queue import Lane


def bucket(started: int, age: timedelta, queue: str = "q") -> Bucket:
    tally = Tally()
    tally.counts["started"] = started
    return Bucket(BASE - age, Lane(queue, "mail"), tally)


def test_the_rate_is_of_the_queue_alone_and_since_its_first_start() -> None:
    buckets = [bucket(60, 2 * MINUTE), bucket(60, MINUTE), bucket(10_000, MINUTE, "other"), bucket(0, 5 * MINUTE)]
    assert start_rate(buckets, "q", BASE) == 1.0
    assert start_rate(buckets, "unknown", BASE) == 0.0


def test_a_few_starts_a_moment_ago_are_no_high_rate() -> None:
    assert start_rate([bucket(3, SECOND)], "q", BASE) == 0.1


def test_a_job_starts_when_those_before_it_have() -> None:
    assert Backlog(9, 2.0).expected_start(BASE, 9) == BASE + 5 * SECOND
    assert Backlog(9, 0.0).expected_start(BASE, 9) is None
    assert Backlog(9, 2.0, is_paused=True).expected_start(BASE, 9) is None
    assert Backlog(9, 2.0, BASE + MINUTE, is_paused=True).expected_start(BASE, 9) == BASE + 65 * SECOND


def test_a_place_is_free_after_the_next_start_rounded_up_and_within_limits() -> None:
    waits = [Backlog(9, rate).retry_after(BASE) for rate in (1000.0, 0.4, 0.0, 0.00001)]
    assert waits == [SECOND, 3 * SECOND, MINUTE, HOUR]

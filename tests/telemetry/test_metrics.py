"""Metrics: what the listener counts, and the exposition format."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_plain

from core.builders import NOW, job
from rota.core.cluster import Leadership
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lifecycle import Event as Move
from rota.core.lifecycle import State
from rota.telemetry import Telemetry
from rota.telemetry.events import (
    JobsClaimed,
    JobsPruned,
    JobsSettled,
    LeaderChanged,
    LeasesLapsed,
    SettlementsRefused,
)
from rota.telemetry.metric_definitions import ALL_METRICS, MetricKind
from rota.telemetry.metrics import MOST_LABELS, OTHER, Metrics
from rota.telemetry.prometheus import OPEN_METRICS, PLAIN_TEXT, exposition, is_asked_for


class Timer:
    """A steady clock that tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def timer() -> Timer:
    return Timer()


@pytest.fixture
def metrics(timer: Timer) -> Metrics:
    return Metrics(clock=lambda: NOW + timedelta(seconds=7), timer=timer)


def running(number: int = 1, **changes: object) -> Job:
    return job(
        id=JobId(number), state=State.RUNNING, fence=1, attempts=1, worker="ada", boot="boot", started_at=NOW,
        lease_until=NOW + timedelta(seconds=15), **changes,
    )  # fmt: skip


def seen(metrics: Metrics) -> dict[str, float]:
    """Read everything back as a scraper would: by name and labels."""
    text = exposition(metrics.collect(), PLAIN_TEXT).text.decode()
    return {
        " ".join([sample.name, *(f"{label}={value}" for label, value in sorted(sample.labels.items()))]): sample.value
        for family in read_plain(text)
        for sample in family.samples
    }


def settled(one: Job, move: Move, *, crash: bool = False) -> JobsSettled:
    return JobsSettled([one], [one.settled(move, crash=crash)], 0.002)


def test_an_attempt_is_counted_from_its_lease_to_its_end(metrics: Metrics, timer: Timer) -> None:
    one = running(type="mail", run_at=NOW - timedelta(seconds=3), created_at=NOW - timedelta(hours=1))
    metrics.on_event(JobsClaimed([one], 0.001))
    timer.now += 0.3
    metrics.on_event(settled(one, Move.SUCCEED))
    found = seen(metrics)
    assert found["rota_attempts_total type=mail"] == 1
    assert found["rota_attempt_outcomes_total outcome=succeeded type=mail"] == 1
    assert found["rota_attempt_duration_seconds_sum type=mail"] == pytest.approx(0.3)
    assert found["rota_attempt_duration_seconds_bucket le=0.1 type=mail"] == 0
    assert found["rota_attempt_duration_seconds_bucket le=0.5 type=mail"] == 1
    assert found["rota_start_latency_seconds_sum queue=default"] == pytest.approx(3)
    assert found["rota_store_seconds_count operation=claim"] == 1
    assert found["rota_store_seconds_sum operation=settle"] == pytest.approx(0.002)


def test_an_attempt_that_was_claimed_ahead_of_its_time_is_counted_from_that(metrics: Metrics, timer: Timer) -> None:
    soon = NOW + timedelta(milliseconds=80)
    one = replace(running(type="mail"), run_at=soon, started_at=soon)
    metrics.on_event(JobsClaimed([one], 0.001))
    timer.now += 0.1
    metrics.on_event(settled(one, Move.SUCCEED))
    found = seen(metrics)
    assert found["rota_attempt_duration_seconds_sum type=mail"] == pytest.approx(0.02)
    assert found["rota_start_latency_seconds_sum queue=default"] == 0


def test_a_job_leased_elsewhere_is_timed_by_the_clock(metrics: Metrics) -> None:
    metrics.on_event(settled(running(type="mail"), Move.SUCCEED))
    assert seen(metrics)["rota_attempt_duration_seconds_sum type=mail"] == pytest.approx(7)


def test_a_repeated_claim_is_one_attempt(metrics: Metrics) -> None:
    one = running(type="mail")
    metrics.on_event(JobsClaimed([one], 0.001))
    metrics.on_event(JobsClaimed([one], 0.001))
    assert seen(metrics)["rota_attempts_total type=mail"] == 1


@pytest.mark.parametrize(
    ("move", "crash", "outcome", "is_timed"),
    [
        (Move.FAIL, False, "failed", True),
        (Move.EXHAUST, False, "dead", True),
        (Move.EXHAUST, True, "lost", False),
        (Move.LAPSE, True, "lost", False),
        (Move.RELEASE, False, "released", False),
        (Move.POSTPONE, False, "released", False),
        (Move.SNOOZE, False, "snoozed", True),
        (Move.CANCEL, False, "cancelled", True),
    ],
)
def test_every_end_has_its_word(metrics: Metrics, move: Move, crash: bool, outcome: str, is_timed: bool) -> None:  # noqa: FBT001
    metrics.on_event(settled(running(type="mail"), move, crash=crash))
    found = seen(metrics)
    assert found[f"rota_attempt_outcomes_total outcome={outcome} type=mail"] == 1
    assert ("rota_attempt_duration_seconds_count type=mail" in found) == is_timed


def test_what_was_not_running_is_no_attempt(metrics: Metrics) -> None:
    metrics.on_event(settled(job(state=State.PENDING), Move.CANCEL))
    assert not any(name.startswith("rota_attempt_outcomes") for name in seen(metrics))


def test_losses_refusals_leaders_and_pruning_are_counted(metrics: Metrics) -> None:
    quiet = seen(metrics)
    assert quiet["rota_settlements_refused_total"] == quiet["rota_leader_changes_total"] == 0
    metrics.on_event(LeasesLapsed([running(type="mail"), running(2, type="mail")]))
    metrics.on_event(SettlementsRefused([JobId(1), JobId(2), JobId(3)]))
    metrics.on_event(LeaderChanged(Leadership("scheduler", "ada", 1, NOW)))
    metrics.on_event(JobsPruned(500, 0.1))
    found = seen(metrics)
    assert found["rota_leases_lost_total type=mail"] == 2
    assert found["rota_settlements_refused_total"] == 3
    assert found["rota_leader_changes_total"] == 1
    assert found["rota_jobs_pruned_total"] == 500


def test_types_without_end_do_not_make_series_without_end(metrics: Metrics) -> None:
    metrics.on_event(JobsClaimed([running(number, type=f"type-{number}") for number in range(1, 1001)], 0.001))
    counts = {name: value for name, value in seen(metrics).items() if name.startswith("rota_attempts_total")}
    assert len(counts) == MOST_LABELS + 1
    assert counts[f"rota_attempts_total type={OTHER}"] == 1000 - MOST_LABELS


def test_openmetrics_readers_understand_the_text(metrics: Metrics) -> None:
    metrics.on_event(JobsClaimed([running(type='odd"\\\ntype')], 0.001))
    written = exposition(metrics.collect(), "application/openmetrics-text; version=1.0.0,text/plain;q=0.5")
    assert written.media.startswith(OPEN_METRICS)
    families = {family.name: family for family in read_open(written.text.decode())}  # type: ignore[no-untyped-call]
    assert families["rota_attempts"].samples[0].labels == {"type": 'odd"\\\ntype'}


@pytest.mark.parametrize(
    ("accept", "is_text"),
    [
        (None, False),
        ("*/*", False),
        ("application/json", False),
        ("text/plain", True),
        ("Text/Plain;version=0.0.4", True),
        ("application/openmetrics-text;version=1.0.0;q=0.7", True),
    ],
)
def test_text_is_sent_only_to_a_client_that_accepts_text_by_name(accept: str | None, is_text: bool) -> None:  # noqa: FBT001
    assert is_asked_for(accept) == is_text


def test_a_listener_that_fails_is_logged_and_hurts_nobody(
    metrics: Metrics, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, heard = Telemetry(), list[object]()
    monkeypatch.setattr(metrics, "begun", None)
    bus.listen(metrics.on_event)
    bus.listen(heard.append)
    with caplog.at_level(logging.ERROR, logger="rota.telemetry"):
        bus.emit(JobsClaimed([running()], 0.001))
    assert len(heard) == 1
    assert "a telemetry listener failed on JobsClaimed" in caplog.text


def test_the_catalogue_keeps_the_rules_of_names() -> None:
    names = [metric.name for metric in ALL_METRICS]
    assert len(names) == len(set(names))
    for metric in ALL_METRICS:
        assert metric.name.startswith("rota_")
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
        assert bool(metric.bounds) == (metric.kind is MetricKind.HISTOGRAM)
        assert metric.name.endswith("_seconds") or metric.kind is not MetricKind.HISTOGRAM
        assert list(metric.bounds) == sorted(metric.bounds)
        assert metric.help.endswith(".")

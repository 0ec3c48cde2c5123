"""Schedules that come from code are checked where they are defined."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota import Rota
from rota.core.duration import format_duration, parse_duration
from rota.core.errors import InvalidRequest
from rota.core.schedule import CatchUp, Overlap, Schedule, rule_of
from rota.engine import app_schedules
from rota.ports.client import Actor


def report(day: str = "today", *args: int, **more: int) -> None: ...


def needy(day: str, *, hour: int) -> None: ...


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"cron": "99 * * * *"}, "cron", "task 'report': cron: cron '99 * * * *': minute: 99 is out of range"),
    ({"cron": ""}, "cron", "task 'report': cron: cron '': 0 fields"),
    ({"cron": "0 0 30 2 *"}, "cron", "never occurs"),
    ({"cron": "@daily", "tz": "Mars/Base"}, "tz", "task 'report': tz: 'Mars/Base' is not an IANA time zone"),
    ({"every": 0}, "every", "task 'report': every: cron '@every 0s'"),
    ({"every": -1}, "every", "must lie between"),
    ({"every": 0.5}, "every", "whole seconds"),
    ({"every": "soon"}, "every", "'soon' is not a duration"),
    ({"every": 5, "cron": "@daily"}, "cron", "either cron or every"),
    ({"tz": "Europe/Berlin"}, "tz", "belongs to cron"),
    ({"tz": "Europe/Berlin", "every": 5}, "tz", "'Europe/Berlin' has no effect with every; an interval is the same"),
    (
        {"every": "1s", "delay": "1h"},
        "delay",
        "delay: '1h' cannot be combined with cron or every; the job of a schedule",
    ),
    ({"cron": "@daily", "delay": 60}, "delay", "delay: 60 cannot be combined with cron or every"),
]


@pytest.mark.parametrize(("options", "field", "message"), REFUSED, ids=str)
def test_a_schedule_that_cannot_be_is_refused_at_the_decorator(
    options: dict[str, Any], field: str, message: str
) -> None:
    app = Rota("sqlite:///never-opened.db")
    with pytest.raises(InvalidRequest, match="task 'report'") as refused:
        app.task(**options)(report)
    assert message in str(refused.value)
    assert refused.value.field == field
    assert isinstance(refused.value, ValueError)
    assert (app.tasks, app.recurring) == ({}, [])


@pytest.mark.parametrize("options", [{"cron": "@daily"}, {"every": 5}], ids=str)
def test_a_function_that_needs_arguments_cannot_recur(options: dict[str, Any]) -> None:
    app = Rota("sqlite:///never-opened.db")
    with pytest.raises(InvalidRequest, match="needs day, hour; give them defaults"):
        app.task(**options)(needy)


@pytest.mark.parametrize("every", [1, 90, 1234567, timedelta(days=30), "1h30m"], ids=str)
def test_an_interval_is_kept_to_the_second(every: timedelta | float | str) -> None:
    """An interval of 1,234,567 s had become one of 1,234,570 s, and thirty days could not be read at all."""
    app = Rota("sqlite:///never-opened.db")
    app.task(every=every)(report)
    (draft,) = app.recurring
    assert parse_duration(draft.rule.removeprefix("@every ")) == parse_duration(every)
    rule_of(draft.rule)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(days=30), "30d"),
        (timedelta(hours=24), "1d"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(seconds=15), "15s"),
        (timedelta(0), "0s"),
        (timedelta(milliseconds=250), "0.25s"),
        (timedelta(seconds=61.5), "1m1.5s"),
    ],
    ids=str,
)
def test_a_duration_is_written_as_people_write_it(span: timedelta, text: str) -> None:
    assert format_duration(span) == text
    assert parse_duration(text) == span


@pytest.mark.parametrize("name", ["", " ", 5, None, b"shop", "a\nb", "n" * 201], ids=repr)
def test_an_app_needs_a_name_under_which_its_schedules_can_be_stored(name: object) -> None:
    """With an empty name they were never put up, without a word."""
    with pytest.raises(InvalidRequest, match=r"name: .* cannot be the name of an app; give 1 to 200") as refused:
        Rota("sqlite:///never-opened.db", name=name)  # type: ignore[arg-type]
    assert refused.value.field == "name"


def test_a_schedule_goes_when_the_code_no_longer_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had fired for ever."""
    monkeypatch.setattr(app_schedules, "BEAT_SECONDS", 0.05)
    url = f"sqlite:///{tmp_path}/rota.db"
    first = Rota(url)
    first.task(cron="@daily")(report)
    with first.run():
        assert named(first, "report").app == "default"
    second = Rota(url)
    second.task(report)
    with second.run():
        give_up_at = time.monotonic() + 20
        while (found := named(second, "report")).paused_at is None and time.monotonic() < give_up_at:
            time.sleep(0.02)
    assert found.pause_reason == "no running process of app 'default' defines it"
    with first.run():
        assert named(first, "report").paused_at is None


def test_a_change_by_hand_of_a_schedule_from_code_lasts_until_the_next_start(tmp_path: Path) -> None:
    app = Rota(f"sqlite:///{tmp_path}/rota.db")
    app.task(cron="@daily")(report)
    with app.run():
        engine = app.portal.call(app.link()).engine
        assert engine is not None
        other = replace(named(app, "report"), catch_up=CatchUp.ALL, overlap=Overlap.SKIP)
        assert app.portal.call(engine.schedules.edit(other, Actor("olga"))).catch_up is CatchUp.ALL
    with app.run():
        found = named(app, "report")
    assert (found.catch_up, found.overlap) == (CatchUp.LATEST, Overlap.ALLOW)


def named(app: Rota, name: str) -> Schedule:
    engine = app.portal.call(app.link()).engine
    assert engine is not None
    return app.portal.call(engine.schedules.named(name))

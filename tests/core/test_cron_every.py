"""Intervals: fire times are the same for all schedulers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from rota.core.cron import parse

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("@every 1s", 1),
        ("@every 90s", 90),
        ("@every 5m", 300),
        ("@every 1h30m", 5400),
        ("@every 1h 30m", 5400),
        ("@every 1.5h", 5400),
        ("@every 2d", 172_800),
        ("@every 366d", 366 * 86_400),
    ],
)
@pytest.mark.parametrize(
    "moment", ["2026-05-03T12:34:56.789+00:00", "1969-12-31T23:59:59+00:00", "1890-02-03T00:00+00:00"]
)
def test_an_interval_fires_at_whole_multiples_since_1970(text: str, seconds: int, moment: str) -> None:
    after = datetime.fromisoformat(moment)

    found = parse(text).next(after)

    assert (found - EPOCH) % timedelta(seconds=seconds) == timedelta(0)
    assert timedelta(0) < found - after <= timedelta(seconds=seconds)


def test_a_multiple_is_not_its_own_next() -> None:
    assert parse("@every 5m").next(EPOCH) == EPOCH + timedelta(minutes=5)
    assert parse("@every 5m").next(EPOCH - timedelta(microseconds=1)) == EPOCH


def test_intervals_pass_over_clock_changes_as_if_nothing_was() -> None:
    before = datetime(2026, 3, 29, 0, 0, tzinfo=ZoneInfo("Europe/Berlin"))

    found = parse("@every 1h").preview(before, 4)

    assert [f"{moment:%H:%M%z}" for moment in found] == ["01:00+0100", "03:00+0200", "04:00+0200", "05:00+0200"]


def test_all_zones_see_the_same_fire_times() -> None:
    expression = parse("@every 7h")
    moment = datetime(2026, 5, 3, 12, tzinfo=UTC)

    found = {expression.next(moment.astimezone(ZoneInfo(name))).astimezone(UTC) for name in ("UTC", "Asia/Kathmandu")}

    assert len(found) == 1

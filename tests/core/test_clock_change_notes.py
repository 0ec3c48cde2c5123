"""Clock changes in the preview of a schedule."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from rota.core.cron import clock_changes, parse

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GAP = "02:30 does not exist on 29 March 2026: it runs at 03:00"
TWICE = "02:30 comes twice on 25 October 2026: it runs the first time only"


@pytest.mark.parametrize(
    ("rule", "zone", "notes"),
    [
        ("30 2 * * *", "Europe/Berlin", [GAP, TWICE]),
        ("30 2 * * *", "UTC", []),
        ("0 3 * * *", "Europe/Berlin", []),
        # For a rule that fires all day, a missed or repeated hour is not noticeable.
        ("*/5 * * * *", "Europe/Berlin", []),
        ("@every 5m", "Europe/Berlin", []),
        (
            "*/30 2 * * *",
            "Europe/Berlin",
            [
                "02:00 does not exist on 29 March 2026: it does not run then",
                "02:00 comes twice on 25 October 2026: it runs both times",
            ],
        ),
        # A rule that means no day on which the clock changes.
        ("30 2 * * MON", "Europe/Berlin", []),
    ],
)
def test_a_rule_is_told_of_the_clock_changes_that_it_stumbles_over(rule: str, zone: str, notes: list[str]) -> None:
    assert [change.text for change in clock_changes(parse(rule), ZoneInfo(zone), NOW)] == notes


def test_the_fire_times_that_come_instead_are_those_of_the_rule() -> None:
    gap, twice = clock_changes(parse("30 2 * * *"), ZoneInfo("Europe/Berlin"), NOW)
    assert [at.astimezone(UTC) for at in gap.runs] == [datetime(2026, 3, 29, 1, tzinfo=UTC)]
    assert [at.astimezone(UTC) for at in twice.runs] == [datetime(2026, 10, 25, 0, 30, tzinfo=UTC)]

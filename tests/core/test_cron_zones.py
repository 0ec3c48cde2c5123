"""Assumptions of the cron package about clock changes, checked against the installed tz database."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from importlib import resources
from itertools import pairwise
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo, available_timezones

import pytest

from rota.core.cron.fire_times import MIN_CHANGE_GAP, change_between


def zone_file(name: str) -> bytes:
    for folder in TZPATH:
        if (Path(folder) / name).is_file():
            return (Path(folder) / name).read_bytes()
    return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


def recorded_changes(content: bytes) -> list[tuple[int, int]]:
    """Read (instant, new offset) pairs from a TZif file (RFC 8536), leaving out changes of the name only."""
    header = struct.Struct(">4s1s15x6l")
    _, _, utc_count, std_count, leap_count, time_count, type_count, name_count = header.unpack_from(content)
    start = header.size + time_count * 5 + type_count * 6 + name_count + leap_count * 8 + std_count + utc_count
    _, _, _, _, _, time_count, type_count, _ = header.unpack_from(content, start)
    start += header.size
    instants = struct.unpack_from(f">{time_count}q", content, start)
    kinds = struct.unpack_from(f">{time_count}B", content, start + time_count * 8)
    offsets = [struct.unpack_from(">l", content, start + time_count * 9 + kind * 6)[0] for kind in range(type_count)]
    changes: list[tuple[int, int]] = []
    latest = offsets[0]
    for instant, kind in zip(instants, kinds, strict=True):
        if offsets[kind] != latest:
            changes.append((instant, latest := offsets[kind]))
    return changes


ALL_CHANGES = {name: recorded_changes(zone_file(name)) for name in sorted(available_timezones())}


def test_no_clock_was_ever_changed_twice_within_the_calm() -> None:
    gaps = {
        name: min(later - earlier for (earlier, _), (later, _) in pairwise(changes))
        for name, changes in ALL_CHANGES.items()
        if len(changes) > 1
    }

    assert len(gaps) > 300
    assert min(gaps.values()) > MIN_CHANGE_GAP.total_seconds(), min(gaps, key=lambda name: gaps[name])


def test_the_rules_for_the_future_keep_the_calm_too() -> None:
    start = datetime(2098, 1, 1, tzinfo=UTC)
    for name in ALL_CHANGES:
        zone = ZoneInfo(name)
        offsets = [(start + timedelta(days=day)).astimezone(zone).utcoffset() for day in range(366)]
        days = [day for day in range(1, 366) if offsets[day] != offsets[day - 1]]
        assert all(later - earlier > MIN_CHANGE_GAP.days for earlier, later in pairwise(days)), name


def test_no_clock_was_ever_changed_by_more_than_a_day() -> None:
    jumps = [abs(later - earlier) for changes in ALL_CHANGES.values() for (_, earlier), (_, later) in pairwise(changes)]

    assert max(jumps) <= 86_400 < MIN_CHANGE_GAP.total_seconds()


@pytest.mark.parametrize("name", ["Europe/Berlin", "Pacific/Apia", "Africa/Monrovia", "Africa/Freetown", "Asia/Manila"])
def test_a_change_is_found_to_the_second(name: str) -> None:
    zone = ZoneInfo(name)
    for seconds, _ in ALL_CHANGES[name]:
        change = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        for before, after in ((1, 0), (1, 1), (86_400, 5), (3, 86_400)):
            sides = change - timedelta(seconds=before), change + timedelta(seconds=after)
            assert change_between(zone, *sides) == change

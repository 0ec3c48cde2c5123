"""Try `rota.core.cron` on a million random triples (expression, zone, moment) against the walker.

    python tests/fuzz/fuzz_cron.py --count 1000000 --seed 1 --processes 2

Two things are done for every zone of the tz database:

1. Ten years, 2020 to 2029, are walked from end to end with a few expressions; every single fire time must agree.
2. Random triples near clock changes of all times, from local mean time to the far future: an expression is walked over
   some days, and `next` is asked from moments all over them, on fire times and next to them most of all.

The work of a zone depends on the seed and the zone's name only, so any mismatch can be repeated. The first mismatch of
a zone is printed with what to type to see it again, and the exit code is 1.
"""

# ruff: noqa: T201 - a script prints
from __future__ import annotations

import argparse
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo, available_timezones

from rota.core.cron import InvalidCron, parse

# A script sees its own folder only; the walker lives next door.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from core.cron_walker import DAY, Walker, instant_of, moment_of, offset_at, stretches

TEN_YEARS = (instant_of(datetime(2020, 1, 1, tzinfo=UTC)), instant_of(datetime(2030, 1, 1, tzinfo=UTC)))
#: Nearly all clock changes since 2020 lie on a quarter of an hour, so these expressions may be walked by quarters.
QUARTER = 900
TEN_YEAR_EXPRESSIONS = (
    "15,45 2 * * *",
    "30 0 * * *",
    "0 */12 * * *",
    "*/30 1-2 * * SUN",
    "45 23 1,15,31 * FRI",
)
#: From before the first local mean times to well into what the zones' rules foretell.
ALL_TIMES = (instant_of(datetime(1840, 1, 1, tzinfo=UTC)), instant_of(datetime(2100, 1, 1, tzinfo=UTC)))
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MOMENTS_PER_WALK = 24
#: No date is rarer than 29 February on one weekday: forty years, when a century without a leap day lies between.
LONGEST_WAIT = 41 * 366 * DAY


@dataclass(frozen=True)
class Report:
    zone: str
    triples: int
    links: int
    refused: int
    mismatches: tuple[str, ...]


def fuzz_zone(name: str, *, seed: int, triples: int) -> Report:
    rng, zone = Random(f"{seed}/{name}"), ZoneInfo(name)
    links, wrong = ten_years(zone)
    done, refused = 0, 0
    changes = find_changes(zone)
    while done < triples and not wrong:
        expression = random_expression(rng)
        try:
            parse(expression)
        except InvalidCron:
            refused += 1
            if next(all_dates(expression), None) is not None:
                wrong = [f"refused, but it fires: {expression!r}"]
            continue
        found = try_walk(rng, expression, zone, changes, moments=min(MOMENTS_PER_WALK, triples - done))
        done += min(MOMENTS_PER_WALK, triples - done)
        wrong.extend(found)
    return Report(name, done, links, refused, tuple(wrong[:1]))


def ten_years(zone: ZoneInfo) -> tuple[int, list[str]]:
    """Follow each expression through ten years, link by link."""
    start, end = TEN_YEARS
    links = 0
    parts = stretches(zone, start - 2 * DAY, end + 1, stride=4 * QUARTER)
    tick = 60 if any(begin % QUARTER or offset % QUARTER for begin, _, offset in parts) else QUARTER
    for expression in TEN_YEAR_EXPRESSIONS:
        walker, cron = Walker(expression, zone, tick=tick), parse(expression)
        expected = list(walker.walk(start, end, parts))
        at = moment_of(start, zone)
        for fire in expected:
            found = cron.next(at)
            if instant_of(found) != fire:
                return links, [mismatch(expression, zone, at, fire)]
            at = found
            links += 1
    return links, []


def try_walk(rng: Random, expression: str, zone: ZoneInfo, changes: list[int], *, moments: int) -> list[str]:
    """Walk the expression over some days and ask for the next fire time from many moments of them."""
    walker, cron = Walker(expression, zone), parse(expression)
    around = pick_centre(rng, changes)
    before, length = (rng.randrange(3 * DAY), 5 * DAY) if walker.tick > 1 else (rng.randrange(4 * 3600), 6 * 3600)
    start = around - before
    end = start + length
    fires = walker.fires(start, end)
    beyond: int | None = None
    hot = [around, *rng.choices(fires, k=8)] if fires else [around]
    for micros in pick_moments(rng, range(start, end + 1), hot, moments):
        after = moment_of(0, UTC) + timedelta(microseconds=micros)
        index = bisect_right(fires, micros // 1_000_000)
        if index < len(fires):
            expected = fires[index]
        else:
            beyond = beyond or walker.first(end, end + LONGEST_WAIT)
            assert beyond is not None, f"the walker found no end for {expression!r}"
            expected = beyond
        here = after.astimezone(zone)
        found = cron.next(here)
        if found.tzinfo is not zone or instant_of(found) != expected or found.microsecond:
            return [mismatch(expression, zone, here, expected)]
    return []


def pick_centre(rng: Random, changes: list[int]) -> int:
    """Choose what to look at: mostly a clock change, now and then any time at all."""
    if changes and rng.random() < 0.8:
        return rng.choice(changes)
    return rng.randrange(*(TEN_YEARS if rng.random() < 0.5 else ALL_TIMES))


def pick_moments(rng: Random, span: range, hot: list[int], count: int) -> Iterator[int]:
    """Choose moments within the span, in microseconds: on what is hot, near it, or anywhere."""
    for _ in range(count):
        way = rng.random()
        if way < 0.35:
            at = rng.choice(hot) + rng.choice((-60, -1, 0, 0, 0, 1, 60))
        elif way < 0.7:
            at = hot[0] + rng.choice((1, 60, 3600)) * rng.randint(-90, 90)
        else:
            at = rng.choice(span)
        fraction = 0 if rng.random() < 0.8 else rng.randrange(1_000_000)
        yield min(max(span[0], at), span[-1]) * 1_000_000 + fraction


def find_changes(zone: ZoneInfo) -> list[int]:
    """List the zone's clock changes of all times, to aim at."""
    found: list[int] = []
    start, end = ALL_TIMES
    stride = 3 * DAY
    offset = offset_at(zone, start)
    for here in range(start, end, stride):
        if offset_at(zone, here + stride) != offset:
            found.extend(part[1] for part in stretches(zone, here, here + stride, stride=3600)[:-1])
            offset = offset_at(zone, here + stride)
    return found


def random_expression(rng: Random) -> str:
    """Throw an expression together: mostly busy by day, so that something happens near the change."""
    minute = random_field(rng, 0, 59, stars=0.35)
    hour = random_field(rng, 0, 23, stars=0.35, near=(0, 1, 2, 3, 4, 22, 23))
    day = random_field(rng, 1, 31, stars=0.7)
    month = random_field(rng, 1, 12, stars=0.85, names=MONTHS)
    weekday = random_field(rng, 0, 7, stars=0.7, names=WEEKDAYS)
    words = [minute, hour, day, month, weekday]
    if rng.random() < 0.15:
        words.insert(0, random_field(rng, 0, 59, stars=0.2))
    return " ".join(words)


def random_field(
    rng: Random, low: int, high: int, *, stars: float, near: tuple[int, ...] = (), names: tuple[str, ...] = ()
) -> str:
    if rng.random() < stars:
        return rng.choice(("*", "*", f"*/{rng.randint(1, high + 2)}", f"*,{rng.randint(low, high)}"))
    return ",".join(random_item(rng, low, high, near=near, names=names) for _ in range(rng.choice((1, 1, 1, 2, 4))))


def random_item(rng: Random, low: int, high: int, *, near: tuple[int, ...], names: tuple[str, ...]) -> str:
    def value() -> int:
        return rng.choice(near) if near and rng.random() < 0.7 else rng.randint(low, high)

    def written(number: int) -> str:
        return names[number - low] if number - low < len(names) and rng.random() < 0.5 else str(number)

    way = rng.random()
    if way < 0.6:
        return written(value())
    first, last = sorted((value(), value()))
    span = f"{written(first)}-{written(last)}"
    return span if way < 0.8 else f"{span}/{rng.randint(1, high)}"


def all_dates(expression: str) -> Iterator[int]:
    """Find, in the slowest way, the days of eight years on which an expression could fire."""
    walker = Walker(expression, UTC)
    return (day for day in range(8 * 366) if walker.matches_day(day))


def mismatch(expression: str, zone: ZoneInfo, after: datetime, expected: int) -> str:
    try:
        found = parse(expression).next(after).isoformat()
    except Exception as error:  # noqa: BLE001 - whatever is raised is the finding
        found = repr(error)
    moment = after.astimezone(UTC).isoformat()
    return (
        f"MISMATCH {expression!r} in {zone.key} after {after.isoformat()}\n"
        f"  walker: {moment_of(expected, zone).isoformat()}\n"
        f"  next(): {found}\n"
        f"  again:  parse({expression!r}).next(datetime.fromisoformat({moment!r}).astimezone(ZoneInfo({zone.key!r})))"
    )


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare rota.core.cron with a brute-force walker.")
    parser.add_argument("--count", type=int, default=1_000_000, help="random triples in all (default: 1,000,000)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed tries the same triples (default: 1)")
    parser.add_argument("--processes", type=int, default=2, help="how many at once (default: 2)")
    return parser.parse_args()


def main() -> int:
    arguments = read_arguments()
    zones = sorted(available_timezones())
    Random(arguments.seed).shuffle(zones)
    share = -(-arguments.count // len(zones))
    began = time.monotonic()
    triples = links = refused = failed = 0
    with ProcessPoolExecutor(arguments.processes) as pool:
        work = pool.map(partial(fuzz_zone, seed=arguments.seed, triples=share), zones)
        for number, report in enumerate(work, 1):
            triples, links, refused = triples + report.triples, links + report.links, refused + report.refused
            failed += len(report.mismatches)
            for line in report.mismatches:
                print(line, flush=True)
            if number % 50 == 0 or number == len(zones):
                rate = triples / (time.monotonic() - began)
                print(f"{number}/{len(zones)} zones, {triples:,} triples, {rate:,.0f} triples/s", flush=True)
    print(
        f"seed {arguments.seed}: {triples:,} triples and {links:,} links of ten years in {len(zones)} zones, "
        f"{refused:,} impossible dates refused, {failed} mismatches, {time.monotonic() - began:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

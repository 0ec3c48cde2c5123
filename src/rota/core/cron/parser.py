"""Parser of cron expressions: aliases, intervals, five fields or six.

The length is bounded first and the text split once, so parsing takes linear time.
"""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import Final

from rota.core.cron.expression import CronExpression
from rota.core.cron.field import DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH, SECOND, STAR
from rota.core.cron.fire_times import Every, FixedTime, WallClock
from rota.core.cron.pattern import Pattern
from rota.core.duration import parse_duration
from rota.core.errors import InvalidCron, InvalidRequest

LONGEST_TEXT: Final = 256
SHORTEST_INTERVAL: Final = timedelta(seconds=1)
LONGEST_INTERVAL: Final = timedelta(days=366)

_FIELDS: Final = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)
_FIELDS_WITH_SECOND: Final = (SECOND, *_FIELDS)
_EVERY: Final = "@every"
_ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def parse(text: str) -> CronExpression:
    """Parse a cron expression, or raise an `InvalidCron` that says what is wrong and what is allowed."""
    if len(text) > LONGEST_TEXT:
        raise InvalidCron(f"cron: the expression has {len(text)} characters; allowed are at most {LONGEST_TEXT}")
    return _parse(text)


# Cached, since a scheduler with thousands of schedules uses the same texts again and again.
@lru_cache(maxsize=1024)
def _parse(text: str) -> CronExpression:
    # Only spaces and tabs separate: `split()` would take line ends and Unicode's blanks as well.
    words = [word for word in text.replace("\t", " ").split(" ") if word]
    try:
        if words and words[0].startswith("@"):
            return _read_alias(" ".join(words))
        return _read_fields(words)
    except InvalidRequest as refusal:
        raise InvalidCron(f"cron {text!r}: {refusal}", field=refusal.field) from None


def _read_alias(text: str) -> CronExpression:
    # Lower-casing non-ASCII text could turn a strange letter into a plain one.
    alias, _, rest = (text.lower() if text.isascii() else text).partition(" ")
    if alias == _EVERY:
        return _read_interval(rest)
    if alias not in _ALIASES:
        raise InvalidCron(f"{alias!r} is not an alias; allowed are {', '.join(_ALIASES)} and {_EVERY} <duration>")
    if rest:
        raise InvalidCron(f"nothing may follow {alias}; remove {rest!r}")
    return CronExpression(alias, _read_fields(_ALIASES[alias].split()).rule)


def _read_interval(written: str) -> CronExpression:
    if not (written.isascii() and written.isprintable()):
        raise InvalidCron(
            f"every: {written!r} is not a duration; allowed are digits and units, as in '1h30m'", field="every"
        )
    interval = parse_duration(written, field="every")
    if interval % SHORTEST_INTERVAL or not SHORTEST_INTERVAL <= interval <= LONGEST_INTERVAL:
        raise InvalidCron(
            f"every: {written!r} is no usable interval; allowed are whole seconds from 1s to {LONGEST_INTERVAL.days}d",
            field="every",
        )
    return CronExpression(f"{_EVERY} {written}", Every(interval))


def _read_fields(words: list[str]) -> CronExpression:
    has_second = len(words) == len(_FIELDS_WITH_SECOND)
    if not has_second and len(words) != len(_FIELDS):
        raise InvalidCron(
            f"{len(words)} fields; allowed are 5 (minute, hour, day of month, month, day of week), "
            "or 6 with the second in front"
        )
    fields = _FIELDS_WITH_SECOND if has_second else _FIELDS
    sets = [field.read(word) for field, word in zip(fields, words, strict=True)]
    seconds = sets[0] if has_second else 1
    minutes, hours, days, months, weekdays = sets[-5:]
    minute_text, hour_text, day_text, _, weekday_text = words[-5:]
    pattern = Pattern(
        seconds=seconds,
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=(weekdays | weekdays >> 7) & 0b111_1111,  # 7 is Sunday as well
        either_day=not (day_text.startswith(STAR) or weekday_text.startswith(STAR)),
        has_seconds=has_second,
    )
    if not pattern.occurs():
        raise InvalidCron(
            f"{DAY_OF_MONTH.name}: {day_text!r} never occurs in month {words[-2]!r}; choose a day that the month has",
            field=DAY_OF_MONTH.name,
        )
    follows_wall = minute_text.startswith(STAR) or hour_text.startswith(STAR)
    return CronExpression(" ".join(words).upper(), WallClock(pattern) if follows_wall else FixedTime(pattern))

"""Durations as people write them: ``90``, ``"1.5"``, ``"5m"``, ``"1h30m"``, ``"2d"``."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from rota.core.errors import InvalidRequest

UNITS: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
LONGEST: Final = timedelta(days=36_500)
_EXAMPLES: Final = "write seconds as a number, or units as in '90s', '5m', '1h30m', '2d'"
_DIGITS: Final = frozenset("0123456789.")
_LONGEST_TEXT: Final = 40


def parse_duration(value: timedelta | float | str, *, field: str = "duration") -> timedelta:
    """Read a duration; refuse what is negative, endless or not understood, naming the field."""
    match value:
        case timedelta():
            span = value
        case bool():
            raise InvalidRequest(f"{field}: {value!r} is not a duration; {_EXAMPLES}", field=field)
        case int() | float():
            span = _from_seconds(value, field)
        case str():
            span = _from_text(value, field)
    if not timedelta(0) <= span <= LONGEST:
        raise InvalidRequest(f"{field}: {value!r} must lie between 0 and {LONGEST.days} days", field=field)
    return span


def _from_seconds(seconds: float, field: str) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        raise InvalidRequest(f"{field}: {seconds!r} is no usable number of seconds", field=field) from None


def _from_text(text: str, field: str) -> timedelta:
    rest = text.strip().lower()
    if not rest or len(rest) > _LONGEST_TEXT:
        raise InvalidRequest(f"{field}: {text[:_LONGEST_TEXT]!r} is not a duration; {_EXAMPLES}", field=field)
    span = timedelta(0)
    while rest:
        number, unit, rest = _split(rest)
        if not _is_number(number) or (unit and unit not in UNITS) or (not unit and number != text.strip()):
            raise InvalidRequest(f"{field}: {text!r} is not a duration; {_EXAMPLES}", field=field)
        span += _from_seconds(float(number) * UNITS.get(unit, 1_000_000) / 1_000_000, field)
    return span


def _split(text: str) -> tuple[str, str, str]:
    """Cut ``"1h30m"`` into its first number, that number's unit, and the rest."""
    digits = 0
    while digits < len(text) and text[digits] in _DIGITS:
        digits += 1
    letters = digits
    while letters < len(text) and text[letters] not in _DIGITS:
        letters += 1
    return text[:digits], text[digits:letters].strip(), text[letters:]


def _is_number(text: str) -> bool:
    return text.count(".") <= 1 and text.strip(".") != ""

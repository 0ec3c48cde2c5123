"""Durations as people write them: ``90``, ``"1.5"``, ``"5m"``, ``"1h30m"``, ``"2d"``."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from rota.core.errors import InvalidRequest
from rota.core.time import span_to_micros

UNITS: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
LONGEST: Final = timedelta(days=36_500)
_EXAMPLES: Final = "write seconds as a number, or units as in '90s', '5m', '1h30m', '2d'"
_DIGITS: Final = frozenset("0123456789.")
_LONGEST_TEXT: Final = 40
_LONGEST_MICROS: Final = span_to_micros(LONGEST)


def parse_duration(value: timedelta | float | str, *, field: str = "duration") -> timedelta:
    """Read a duration; refuse one that is negative, too long or malformed, naming the field."""
    try:
        micros = _micros_of(value)
    except (ValueError, OverflowError):
        micros = None
    if micros is None:
        raise InvalidRequest(f"{field}: {_shown(value)} is not a duration; {_EXAMPLES}", field=field)
    if not 0 <= micros <= _LONGEST_MICROS:
        message = f"{field}: {_shown(value)} must lie between 0 and {LONGEST.days} days"
        raise InvalidRequest(message, field=field)
    return timedelta(microseconds=micros)


def format_duration(span: timedelta) -> str:
    """Write a duration so that `parse_duration` reads it back as the same: ``30d``, ``1h30m``, ``0.25s``."""
    rest = span_to_micros(span)
    parts = []
    for unit in ("d", "h", "m"):
        count, rest = divmod(rest, UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    if rest or not parts:
        seconds = f"{rest // UNITS['s']}.{rest % UNITS['s']:06d}".rstrip("0").rstrip(".")
        parts.append(f"{seconds}s")
    return "".join(parts)


def _micros_of(value: object) -> int | None:
    """Count a duration's microseconds; None if the value is no duration."""
    match value:
        case timedelta():
            return span_to_micros(value)
        case bool():
            return None
        case int():
            return value * UNITS["s"]
        case float():
            return round(value * UNITS["s"])
        case str() if len(value) <= _LONGEST_TEXT:
            return _micros_of_text(value.strip().lower())
        case _:
            return None


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) > 10**_LONGEST_TEXT:
        return "a number of that size"
    return ascii(value)[: _LONGEST_TEXT + 2]


def _micros_of_text(text: str) -> int | None:
    micros = 0
    rest = text
    while rest:
        number, unit, rest = _split(rest)
        # A number without a unit counts seconds, but only alone: "1h30" is ambiguous.
        if not _is_number(number) or (unit and unit not in UNITS) or (not unit and number != text):
            return None
        whole, _, part = number.partition(".")
        factor = UNITS[unit or "s"]
        micros += int(whole or 0) * factor + round(float(f"0.{part or 0}") * factor)
    return micros if text else None


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

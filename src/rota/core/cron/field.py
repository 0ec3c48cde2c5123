"""Parser of one cron field: ``1-5,*/10`` becomes a set of numbers.

The set is an integer whose bit *n* says that *n* matches: small, hashable, and the next match is a shift away. Parsing
takes time linear in the text, since the text is only split at separators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from rota.core.errors import InvalidCron

STAR: Final = "*"


@dataclass(frozen=True, slots=True)
class Field:
    """One position of an expression and the values it takes; `names` stand for `low`, `low + 1`, and so on."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """Say in words which values the field takes."""
        span = f"{self.low}-{self.high}"
        return f"{span} or {self.names[0]}-{self.names[-1]}" if self.names else span

    def read(self, text: str) -> int:
        """Turn the field's text into the set of values that match."""
        matching = 0
        for item in text.split(","):
            matching |= self._read_item(item)
        return matching

    def _read_item(self, item: str) -> int:
        if not item:
            self._refuse("an entry of the list is empty; remove the comma or write a value")
        span, slash, step_text = item.partition("/")
        low, high = (self.low, self.high) if span == STAR else self._read_span(span, item)
        step = self._read_step(step_text, item) if slash else 1
        if slash and span != STAR and "-" not in span:
            self._refuse(f"{item!r} is a step without a range; write {span}-{self.high}/{step}")
        return sum(1 << value for value in range(low, high + 1, step))

    def _read_span(self, span: str, item: str) -> tuple[int, int]:
        low_text, dash, high_text = span.partition("-")
        low = self._read_value(low_text, item)
        if not dash:
            return low, low
        high = self._read_value(high_text, item)
        if low > high:
            self._refuse(f"{span!r} is a reversed range; {self._remedy_for_reversed(low, high)}")
        return low, high

    def _remedy_for_reversed(self, low: int, high: int) -> str:
        if high == 0 and "SUN" in self.names:
            return f"write {low}-7, Sunday is also 7"
        return f"write {low}-{self.high},{self.low}-{high} if it is to wrap around"

    def _read_value(self, text: str, item: str) -> int:
        if text.isascii() and text.isdigit():
            value = int(text)
            if not self.low <= value <= self.high:
                self._refuse(f"{text} is out of range; allowed is {self.allowed}")
            return value
        # Upper-casing non-ASCII text could turn a strange letter into a plain one, and a wrong name into a right one.
        name = text.upper() if text.isascii() else text
        if name not in self.names:
            wrong = f"{text!r}{_within(text, item)} is not a value" if text else f"{item!r} lacks a value"
            self._refuse(f"{wrong}; allowed is {self.allowed}")
        return self.low + self.names.index(name)

    def _read_step(self, text: str, item: str) -> int:
        if not (text.isascii() and text.isdigit()):
            wrong = f"{text!r}{_within(text, item)} is not a step" if text else f"{item!r} lacks a step"
            self._refuse(f"{wrong}; allowed is a whole number from 1 up")
        step = int(text)
        if step == 0:
            self._refuse(f"{item!r} has a step of 0; allowed is a whole number from 1 up")
        return step

    def _refuse(self, complaint: str) -> NoReturn:
        raise InvalidCron(f"{self.name}: {complaint}", field=self.name)


def _within(text: str, item: str) -> str:
    return "" if text == item else f" in {item!r}"


_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

SECOND: Final = Field("second", 0, 59)
MINUTE: Final = Field("minute", 0, 59)
HOUR: Final = Field("hour", 0, 23)
DAY_OF_MONTH: Final = Field("day of month", 1, 31)
MONTH: Final = Field("month", 1, 12, _MONTHS)
DAY_OF_WEEK: Final = Field("day of week", 0, 7, _WEEKDAYS)

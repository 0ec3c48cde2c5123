"""Output of commands: data to standard output, everything else to standard error.

On a terminal a table; piped, the same columns without colour and without cutting. Control characters are removed from
all data: a payload must not be able to control a terminal.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from rota.cli.exits import CommandFailed, Exit
from rota.core.envelope import envelope_of, is_encrypted
from rota.core.errors import InvalidRequest

FORMATS: Final = ("table", "json", "jsonl", "csv", "ids")
Record = Mapping[str, Any]
Column = tuple[str, Callable[[Record], Any]]


def column(name: str, key: str | None = None) -> Column:
    """Make a column that shows a field as it is."""
    return name, lambda record: record.get(key or name)


class Printer:
    """Prints records in a format: table, JSON, JSON lines, CSV or ids."""

    def __init__(self, form: str = "table", *, time: str = "relative", stream: TextIO | None = None) -> None:
        self.form = form
        self._time = time
        self._out = stream or sys.stdout

    def records(
        self,
        records: Iterable[Record],
        columns: Sequence[Column],
        *,
        empty: str = "nothing found",
        identity: str = "id",
    ) -> None:
        """Print many records; `identity` is the field that `-o ids` prints."""
        match self.form:
            case "json":
                self._line(_json(list(records), indent=2))
            case "jsonl":
                for record in records:
                    self._line(_json(record))
            case "ids":
                for record in records:
                    self._id(record, identity)
            case "csv":
                writer = csv.writer(self._out)
                writer.writerow([name for name, _ in columns])
                writer.writerows([[_cell(read(record)) for _, read in columns] for record in records])
            case _:
                self._table(list(records), columns, empty)

    def record(self, record: Record, *, identity: str = "id") -> None:
        """Print one record; as a table, one line for each field."""
        match self.form:
            case "json" | "jsonl":
                self._line(_json(record, indent=2 if self.form == "json" else None))
            case "ids":
                self._id(record, identity)
            case "csv":
                writer = csv.writer(self._out)
                writer.writerow(record)
                writer.writerow([_cell(value) for value in record.values()])
            case _:
                known = {name: value for name, value in record.items() if value not in (None, [], {})}
                width = max(map(len, known), default=0)
                for name, value in known.items():
                    self._line(f"{name.ljust(width)}  {self._shown(name, value)}")

    def _id(self, record: Record, identity: str) -> None:
        if record.get(identity) is None:
            raise CommandFailed("-o ids: this has no id", fix="use -o json", code=Exit.USAGE)
        self._line(clean(str(record[identity])))

    def _table(self, records: list[Record], columns: Sequence[Column], empty: str) -> None:
        if not records:
            say(empty)
            return
        lines = [[name.upper() for name, _ in columns]]
        lines += [[self._shown(name, read(record)) for name, read in columns] for record in records]
        widths = [max(map(_width, cells)) for cells in zip(*lines, strict=True)]
        columns_shown = os.get_terminal_size().columns if self._out.isatty() else None
        for number, cells in enumerate(lines):
            padded = [cell + " " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True)]
            line = "  ".join(padded).rstrip()
            if columns_shown is not None and len(line) > columns_shown:
                line = line[: columns_shown - 1] + "…"
            self._line(_bold(line) if number == 0 and _has_colour(self._out) else line)

    def _shown(self, name: str, value: object) -> str:
        if isinstance(value, str) and name.endswith(("_at", "at", "_until", "next", "last", "due")) and "T" in value:
            return shown_time(value, self._time)
        return clean(_plain(value))

    def _line(self, text: str) -> None:
        print(text, file=self._out)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: "1 job", "2 jobs"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def say(text: str) -> None:
    """Print a message for a person to standard error."""
    print(text, file=sys.stderr)


def clean(text: str) -> str:
    """Replace control characters."""
    return "".join("\N{REPLACEMENT CHARACTER}" if _is_control(character) else character for character in text)


def _json(value: object, indent: int | None = None) -> str:
    """Write JSON with control characters escaped, so that the value stays exact."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(_escaped(character) if _is_control(character) else character for character in text)


def _escaped(character: str) -> str:
    return character if character == "\n" else json.dumps(character)[1:-1]


def _cell(value: object) -> str:
    """Write a CSV cell. An apostrophe is put before text that a spreadsheet would take for a formula."""
    text = clean(_plain(value))
    return f"'{text}" if isinstance(value, str) and text.startswith(("=", "+", "-", "@")) else text


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs"}


def shown_time(text: str, form: str) -> str:
    """Show a time in the format of --time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return clean(text)
    match form:
        case "iso" | "utc":
            return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        case "local":
            return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
        case _:
            return _relative((moment - datetime.now(UTC)).total_seconds())


def _relative(seconds: float) -> str:
    size = abs(seconds)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        if size >= length:
            amount = f"{size / length:.0f}{unit}"
            return f"in {amount}" if seconds > 0 else f"{amount} ago"
    return "now"


def _plain(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case str():
            return shown_text(value)
        case dict() if len(value) > 1:
            # An error: its message may be encrypted.
            texts = {name: shown_text(one) if isinstance(one, str) else one for name, one in value.items()}
            return json.dumps(texts, ensure_ascii=False)
        case _:
            return shown_json(value)


def shown_text(text: str) -> str:
    """Return a text, or `encrypted (key …)` for one that is encrypted."""
    if not is_encrypted(text):
        return text
    try:
        return str(envelope_of(text))
    except InvalidRequest:
        return "encrypted (damaged)"


def shown_json(value: object) -> str:
    """Write a value as JSON, or `encrypted (key …)` if it is encrypted."""
    return shown_text(json.dumps(value, ensure_ascii=False))


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _has_colour(stream: TextIO) -> bool:
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and not os.environ.get("NO_COLOR"))


def _bold(text: str) -> str:
    return f"\033[1m{text}\033[0m"


class Progress:
    """A progress bar on standard error, shown on a terminal only."""

    def __init__(self, label: str, total: int) -> None:
        self._label = label
        self._total = max(total, 1)
        self._is_shown = sys.stderr.isatty()
        self._is_begun = False

    def show(self, done: int, note: str = "") -> None:
        """Show the progress in numbers, or with a note."""
        if self._is_shown:
            filled = 30 * done // self._total
            bar = "█" * filled + "░" * (30 - filled)
            # The rest of the line is erased: a note may be shorter than the one before.
            print(f"\r{self._label} {bar} {note or f'{done}/{self._total}'}\033[K", end="", file=sys.stderr, flush=True)
            self._is_begun = True
            if done >= self._total:
                self.end()

    def end(self) -> None:
        """End the line of the bar."""
        if self._is_begun:
            print(file=sys.stderr)
            self._is_begun = False

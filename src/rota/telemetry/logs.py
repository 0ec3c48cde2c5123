"""Lines of log: for people, or for machines. One record, one line, whatever it holds. Passwords of
URLs are replaced in every line.

A record that is about a job carries the job's id, type, attempt and worker as fields: those that we write because of
`about`, those that a handler writes because of the context in which it runs. The standard library's logging is used as
it is: handlers' own libraries write to it, and their lines get the same fields.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from rota.core.identity import to_text
from rota.core.job import Job
from rota.core.redaction import redacted
from rota.core.trace import trace_of

#: The fields that say what a record is about.
FIELDS: Final = ("job_id", "job_type", "attempt", "worker", "trace_id")
Surroundings = Callable[[], Mapping[str, object]]


def about(job: Job) -> dict[str, object]:
    """Give the fields of a job, for `extra`."""
    told: dict[str, object] = {"job_id": to_text(job.id), "job_type": job.type, "attempt": job.attempts}
    trace = {} if (trace_id := trace_of(job.meta)) is None else {"trace_id": trace_id}
    return told | ({"worker": job.worker} if job.worker else {}) | trace


class Fields(logging.Filter):
    """Adds what a record is about where it does not say so itself: whatever surrounds the line that wrote it."""

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__()
        self._surroundings = surroundings

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, with its fields."""
        if not hasattr(record, "job_id"):
            for name, value in self._surroundings().items():
                setattr(record, name, value)
        return True


class TextLines(logging.Formatter):
    """A line for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; control characters are escaped, a traceback keeps its lines."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        line = f"{at}Z {record.levelname.lower():7} {record.name}: {_printable(redacted(record.getMessage()))}"
        told = " ".join(f"{name}={_printable(str(value))}" for name, value in _fields_of(record))
        line = f"{line} [{told}]" if told else line
        return f"{line}\n{redacted(self.formatException(record.exc_info))}" if record.exc_info else line


class JsonLines(logging.Formatter):
    """A line for machines."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as one JSON object."""
        told: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
            **dict(_fields_of(record)),
        }
        if record.exc_info:
            told["traceback"] = redacted(self.formatException(record.exc_info))
        return json.dumps(told)


def _fields_of(record: logging.LogRecord) -> list[tuple[str, object]]:
    return [(name, value) for name in FIELDS if (value := getattr(record, name, None)) is not None]


def _printable(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def set_up(level: str, form: str, surroundings: Surroundings = dict) -> None:
    """Write log lines to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form.lower() == "json" else TextLines())
    handler.addFilter(Fields(surroundings))
    logging.captureWarnings(capture=True)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    set_level(level)


def set_level(level: str) -> None:
    """Write lines of this level and above from now on."""
    logging.getLogger().setLevel(level.upper())
    # Their news is ours to tell.
    for name in ("uvicorn", "httpx", "httpcore", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)

"""Logging setup: text or JSON lines on standard error, one line per record, passwords of URLs redacted.

A record about a job has the job's id, type, attempt and worker as fields: Rota's own records through `about`, records
of a handler and of the libraries it calls through the context in which it runs. It is the standard library's logging.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from rota.core.ids import to_text
from rota.core.job import Job
from rota.core.redaction import redacted
from rota.core.trace import trace_of

#: The fields that say what a record is about.
FIELDS: Final = ("job_id", "job_type", "attempt", "worker", "trace_id")
ContextFields = Callable[[], Mapping[str, object]]


def about(job: Job) -> dict[str, object]:
    """Return the fields of a job, for `extra`."""
    fields: dict[str, object] = {"job_id": to_text(job.id), "job_type": job.type, "attempt": job.attempts}
    trace = {} if (trace_id := trace_of(job.meta)) is None else {"trace_id": trace_id}
    return fields | ({"worker": job.worker} if job.worker else {}) | trace


class Fields(logging.Filter):
    """Adds the fields of the current context to records that do not have them."""

    def __init__(self, context_fields: ContextFields) -> None:
        super().__init__()
        self._context_fields = context_fields

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "job_id"):
            for name, value in self._context_fields().items():
                setattr(record, name, value)
        return True


class TextLines(logging.Formatter):
    """Text format."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; control characters are escaped, a traceback keeps its lines."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        line = f"{at}Z {record.levelname.lower():7} {record.name}: {_printable(redacted(record.getMessage()))}"
        fields = " ".join(f"{name}={_printable(str(value))}" for name, value in _fields_of(record))
        line = f"{line} [{fields}]" if fields else line
        return f"{line}\n{redacted(self.formatException(record.exc_info))}" if record.exc_info else line


class JsonLines(logging.Formatter):
    """JSON format, one object per line."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
            **dict(_fields_of(record)),
        }
        if record.exc_info:
            fields["traceback"] = redacted(self.formatException(record.exc_info))
        return json.dumps(fields)


def _fields_of(record: logging.LogRecord) -> list[tuple[str, object]]:
    return [(name, value) for name in FIELDS if (value := getattr(record, name, None)) is not None]


def _printable(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def set_up(level: str, form: str, context_fields: ContextFields = dict) -> None:
    """Write log lines to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form.lower() == "json" else TextLines())
    handler.addFilter(Fields(context_fields))
    logging.captureWarnings(capture=True)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    set_level(level)


def set_level(level: str) -> None:
    """Write lines of this level and above from now on."""
    logging.getLogger().setLevel(level.upper())
    # Rota logs what matters of these libraries itself.
    for name in ("uvicorn", "httpx", "httpcore", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)

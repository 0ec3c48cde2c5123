"""Lines of log: for people, or for machines. One record, one line, whatever it holds."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class TextLines(logging.Formatter):
    """A line for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; control characters are escaped, a traceback keeps its lines."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        said = record.getMessage().encode("unicode_escape").decode() if not record.getMessage().isprintable() else None
        line = f"{at}Z {record.levelname.lower():7} {record.name}: {said or record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    """A line for machines."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as one JSON object."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told)


def set_up(level: str, form: str) -> None:
    """Write log lines to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form.lower() == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Their news is ours to tell.
    for name in ("uvicorn", "httpx", "httpcore", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)

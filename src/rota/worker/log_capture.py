"""Capture of `logging` records: those that a handler makes become lines of its attempt's log.

A factory of records is put before the one that is in use. Unlike a handler on the root logger it changes nothing for
the application: `logging.basicConfig` works later as before, and records of loggers that do not propagate are captured
too. Which records are made is up to the levels of the loggers. Records of threads that a handler starts itself have no
job. It is installed once per process and stays.
"""

from __future__ import annotations

import logging
import traceback
from datetime import UTC, datetime
from typing import Any, Final

from rota.core.redaction import redacted
from rota.worker.context import CURRENT, JobContext

#: Set on the factory, so that it is installed once.
_MARK: Final = "captures_rota_jobs"
#: Rota's own records are about a job, not by it.
_OWN: Final = "rota."


def capture_records() -> None:
    """Capture the records of handlers in this process from now on."""
    make = logging.getLogRecordFactory()
    if getattr(make, _MARK, False):
        return

    def captured(*args: Any, **named: Any) -> logging.LogRecord:  # noqa: ANN401 - those of the factory before it
        record = make(*args, **named)
        context = CURRENT.get(None)
        if context is not None and not record.name.startswith(_OWN):
            add_record(context, record)
        return record

    setattr(captured, _MARK, True)
    logging.setLogRecordFactory(captured)


def add_record(context: JobContext, record: logging.LogRecord) -> None:
    """Add a record, with its traceback, to the log of an attempt. A record that cannot be formatted does no harm."""
    try:
        message = record.getMessage()
        if record.exc_info and record.exc_info[0] is not None:
            message += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
    except Exception as error:  # noqa: BLE001 - whatever the code of an argument raises
        message = f"{record.msg!r} (cannot be formatted: {type(error).__name__})"
    at = datetime.fromtimestamp(record.created, UTC)
    context.add_line(at, record.levelname.lower(), redacted(message), record.name)

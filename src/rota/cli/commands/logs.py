"""`rota jobs logs`: the log lines of an attempt, and with -f those that follow until the job has ended."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any, Final

from rota.cli.api_client import ApiClient
from rota.cli.commands.arguments import api_client_of, printer_of
from rota.cli.commands.jobs import FINISHED
from rota.cli.exits import Exit
from rota.cli.output import clean, column, say
from rota.core.log_lines import LogLine, lines_of, shown

#: How often `-f` polls for new lines.
LOOK_SECONDS: Final = 0.5
COLUMNS: Final = (column("number"), column("at"), column("level"), column("logger"), column("message"))


def logs(options: argparse.Namespace) -> int:
    """Show the log of the last attempt of a job, or of another one."""
    api = api_client_of(options)
    if options.follow:
        return follow(api, options.id, options.attempt)
    log = api.get(f"/v1/jobs/{options.id}/logs", attempt=options.attempt)
    lines = _lines(log)
    printer = printer_of(options)
    if printer.form != "table":
        printer.records([_record(line) for line in lines], COLUMNS, empty="", identity="number")
        return Exit.OK
    _print(lines)
    if not lines:
        say(f"attempt {log['attempt']} logged nothing" if log["attempts"] else "not yet started: no log")
    return Exit.OK


def follow(api: ApiClient, job_id: str, only: int | None = None) -> int:
    """Print lines as they come, attempt by attempt or of one attempt, until the job or the attempt has ended."""
    attempt, after = only or 0, 0
    while True:
        # The state first: lines that come after it was read are read by the next poll, or are there already.
        status = api.get(f"/v1/jobs/{job_id}")["status"]
        log = api.get(f"/v1/jobs/{job_id}/logs", attempt=attempt, after=after)
        attempt = log["attempt"]
        lines = [line for line in _lines(log) if line.number > after]
        _print(lines)
        after = lines[-1].number if lines else after
        if attempt < log["attempts"] and only is None:
            attempt, after = attempt + 1, 0
            say(f"attempt {attempt}")
            continue
        if status in FINISHED or (only is not None and not log["is_running"]):
            say(f"job {job_id} is {status}")
            return Exit.JOB_FAILED if status in {"dead", "cancelled"} else Exit.OK
        time.sleep(LOOK_SECONDS)


def _lines(log: Mapping[str, Any]) -> list[LogLine]:
    """Return the lines of an answer; those of an encrypted log, if this process has the key."""
    encrypted = log.get("encrypted")
    if encrypted is not None:
        return list(lines_of(encrypted))
    return [
        LogLine(one["number"], one["at"] or "", one["level"], one["message"], one["logger"] or "")
        for one in log["items"]
    ]


def _record(line: LogLine) -> dict[str, object]:
    return {
        "number": line.number, "at": line.at, "level": line.level, "logger": line.logger, "message": line.message,
    }  # fmt: skip


def _print(lines: list[LogLine]) -> None:
    for line in lines:
        print("\n".join(clean(part) for part in shown(line).splitlines()), flush=True)

"""Submitting jobs: one, a recurring one, or a whole file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rota.cli.commands.jobs import await_end
from rota.cli.commands.setup import json_of, printer_of, server_of
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import Progress, clean, say
from rota.cli.server import Server

#: As many as the server takes at once.
BATCH: Final = 1000


def submit(options: argparse.Namespace) -> int:
    """Submit what was described."""
    if options.source is not None:
        return _submit_file(options)
    body = _body(options)
    if options.dry_run:
        printer_of(options).record(body)
        return Exit.OK
    server = server_of(options)
    job = server.post("/tasks" if "cron" in body else "/v1/jobs", body)
    for warning in job.get("warnings", ()):
        say(f"warning: {clean(warning)}")
    if options.wait is not None and "cron" not in body:
        return await_end(options, server, job["id"], options.wait)
    printer = printer_of(options)
    if printer.form == "table" and not options.quiet:
        when = f", next run {job['next_run_at']}" if "cron" in body else ""
        say(f"submitted {job.get('type', options.type)}{when}")
        print(job["id"])
    else:
        printer.record(job)
    return Exit.OK


def _body(options: argparse.Namespace) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": options.type,
        "payload": json_of(options.payload, "payload"),
        "max_attempts": options.max_attempts,
        "cron": options.cron or (f"@every {options.every}" if options.every else None),
        "zone": options.tz,
        "run_at": options.at,
        "delay": options.delay,
        "priority": options.priority,
        "queue": options.queue,
        "idempotency_key": options.key,
        "timeout": options.timeout,
        "tags": options.tag,
        "on_success": {"type": options.on_success} if options.on_success else None,
        "on_failure": {"type": options.on_failure} if options.on_failure else None,
    }
    return {name: value for name, value in body.items() if value is not None}


def _submit_file(options: argparse.Namespace) -> int:
    lines = list(_lines(Path(options.source)))
    if options.dry_run:
        say(f"would submit {len(lines)} jobs")
        return Exit.OK
    server, printer = server_of(options), printer_of(options)
    progress = Progress("submitting", len(lines))
    refused = 0
    for start in range(0, len(lines), BATCH):
        refused += _submit_batch(server, lines[start : start + BATCH], start, is_quiet=printer.form != "ids")
        progress.show(min(start + BATCH, len(lines)))
    say(f"submitted {len(lines) - refused} of {len(lines)} jobs")
    return Exit.ERROR if refused else Exit.OK


def _submit_batch(server: Server, jobs: list[Any], start: int, *, is_quiet: bool) -> int:
    reply = server.post("/v1/jobs:batch", {"jobs": jobs})
    for number, item in enumerate(reply["items"], start + 1):
        if "error" in item:
            say(f"line {number}: {item['error'].get('detail')}")
        elif not is_quiet:
            print(item["id"])
    return int(reply["refused"])


def _lines(path: Path) -> Iterator[Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"--from: {error}", fix="name a file that can be read", code=Exit.USAGE) from None
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                fix = "write one JSON object on each line"
                raise CommandFailed(f"{path.name}:{number}: {error}", fix=fix, code=Exit.USAGE) from None

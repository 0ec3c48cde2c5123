"""`rota submit`: one job, a recurring job, or the jobs of a file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rota.cli.api_client import ApiClient
from rota.cli.commands.arguments import api_client_of, encrypted, json_of, printer_of, strict_json
from rota.cli.commands.jobs import await_end
from rota.cli.commands.logs import follow
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import Progress, clean, say

#: The flags that describe one job, by the names of their values.
_FLAGS: Final = {
    "type": "--type", "payload": "--payload", "max_attempts": "--max-attempts", "cron": "--cron", "every": "--every",
    "at": "--at", "delay": "--in", "tz": "--tz", "priority": "--priority", "queue": "--queue", "key": "--key",
    "unique_for": "--unique-for", "unique_by": "--unique-by", "unique_key": "--unique-key",
    "unique_state": "--unique-state", "debounce": "--debounce", "max_wait": "--max-wait", "throttle": "--throttle",
    "timeout": "--timeout", "expires": "--expires", "delivery": "--delivery",
    "concurrency_key": "--concurrency-key", "breaker": "--breaker", "tag": "--tag",
    "after": "--after", "on_success": "--on-success", "on_failure": "--on-failure",
}  # fmt: skip
#: The names of the values of flags whose fields are called otherwise.
_FLAG_NAMES: Final = {
    "run_at": "at",
    "zone": "tz",
    "idempotency_key": "key",
    "tags": "tag",
    "unique_states": "unique_state",
}
#: As many as the API takes in one request.
BATCH: Final = 1000


def submit(options: argparse.Namespace) -> int:
    if options.source is not None:
        _refuse_beside_file(options)
        return _submit_file(options)
    body = _body(options)
    _check_flags(options, body)
    try:
        return _submit_one(options, body)
    except CommandFailed as error:
        cause = _with_flag(str(error), options)
        raise CommandFailed(cause, fix=error.fix, code=error.code) from None


def _submit_one(options: argparse.Namespace, body: dict[str, Any]) -> int:
    if options.dry_run:
        from rota.cli.commands.submission_check import check_submission  # noqa: PLC0415 - the server's code, only here

        check_submission(body)
        printer_of(options).record(body)
        return Exit.OK
    api = api_client_of(options)
    sent = encrypted(api, body, has_id="cron" not in body)
    job = api.post("/tasks" if "cron" in body else "/v1/jobs", sent)
    is_new = _say_notes(job)
    if options.wait is not None or options.follow:
        if not options.quiet and is_new:
            say(f"submitted {job['id']}")
        return follow(api, job["id"]) if options.follow else await_end(options, api, job["id"], options.wait)
    printer = printer_of(options)
    if printer.form != "table":
        printer.record(job)
        return Exit.OK
    if not options.quiet and is_new:
        when = f", next run {job['next_run_at']}" if "cron" in body else ""
        say(f"submitted {job.get('type', options.type)}{when}")
    print(job["id"])
    return Exit.OK


def _with_flag(cause: str, options: argparse.Namespace) -> str:
    """Name the flag where the server's error names the field that the flag gave."""
    field, colon, rest = cause.partition(": ")
    if field == "cron" and options.every is not None:
        field = "every"
    flag = _FLAGS.get(_FLAG_NAMES.get(field, field))
    return f"{flag}: {rest}" if colon and flag else cause


def _check_flags(options: argparse.Namespace, body: dict[str, Any]) -> None:
    """Refuse flags that have no effect together."""
    if options.tz is not None and options.cron is None:
        raise CommandFailed("--tz: no --cron is given, whose zone it is", fix="leave --tz out", code=Exit.USAGE)
    if options.follow and options.wait is not None:
        raise CommandFailed("--follow and --wait are given", fix="give one of the two", code=Exit.USAGE)
    if "cron" in body and (options.wait is not None or options.follow):
        flag = "--follow" if options.follow else "--wait"
        raise CommandFailed(f"{flag}: a recurring job never ends", fix=f"leave {flag} out", code=Exit.USAGE)


def _say_notes(job: dict[str, Any]) -> bool:
    """Say warnings, and why an earlier job is the answer; return whether a job was made."""
    for warning in job.get("warnings", ()):
        say(f"warning: {clean(warning)}")
    conflict = job.get("conflict")
    if conflict is not None:
        say(f"{conflict['code']}: {clean(conflict['detail'])}; {clean(conflict['fix'])}")
    return conflict is None


def _body(options: argparse.Namespace) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": "default" if options.type is None else options.type,
        "payload": None if options.payload is None else json_of(options.payload, "payload"),
        "max_attempts": options.max_attempts,
        "cron": f"@every {options.every}" if options.every is not None else options.cron,
        "zone": options.tz,
        "run_at": options.at,
        "delay": options.delay,
        "priority": options.priority,
        "queue": options.queue,
        "idempotency_key": options.key,
        "unique_for": options.unique_for,
        "unique_by": options.unique_by,
        "unique_key": options.unique_key,
        "unique_states": options.unique_state,
        "debounce": options.debounce,
        "max_wait": options.max_wait,
        "throttle": options.throttle,
        "timeout": options.timeout,
        "expires": options.expires,
        "delivery": options.delivery,
        "concurrency_key": options.concurrency_key,
        "breaker": options.breaker,
        "tags": options.tag,
        "after": options.after,
        "on_success": None if options.on_success is None else {"type": options.on_success},
        "on_failure": None if options.on_failure is None else {"type": options.on_failure},
    }
    return {name: value for name, value in body.items() if value is not None}


def _refuse_beside_file(options: argparse.Namespace) -> None:
    """Refuse flags that describe one job: with a file, each line describes its job."""
    given = [
        name
        for name in (*_FLAGS, "wait", "follow")
        if getattr(options, name) is not None and getattr(options, name) is not False
    ]
    if given:
        raise CommandFailed(
            f"--from: {_FLAGS.get(given[0], f'--{given[0]}')} does not apply to the jobs of a file",
            fix="write it on each line of the file",
            code=Exit.USAGE,
        )


def _submit_file(options: argparse.Namespace) -> int:
    lines = list(_lines(Path(options.source)))
    if options.dry_run:
        return _check_lines(lines)
    api, printer = api_client_of(options), printer_of(options)
    progress = Progress("submitting", len(lines))
    refused = 0
    for start in range(0, len(lines), BATCH):
        refused += _submit_batch(api, lines[start : start + BATCH], start, is_quiet=printer.form != "ids")
        progress.show(min(start + BATCH, len(lines)))
    say(f"submitted {len(lines) - refused} of {len(lines)} jobs")
    return Exit.ERROR if refused else Exit.OK


def _check_lines(jobs: list[Any]) -> int:
    from rota.cli.commands.submission_check import check_submission  # noqa: PLC0415 - the server's code, only here

    refused = 0
    for number, job in enumerate(jobs, 1):
        try:
            check_submission(job, in_batch=True)
        except CommandFailed as error:
            say(f"line {number}: {error}")
            refused += 1
    say(f"would submit {len(jobs) - refused} of {len(jobs)} jobs")
    return Exit.ERROR if refused else Exit.OK


def _submit_batch(api: ApiClient, jobs: list[Any], start: int, *, is_quiet: bool) -> int:
    reply = api.post("/v1/jobs:batch", {"jobs": [encrypted(api, job, has_id=True) for job in jobs]})
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
                yield strict_json(line)
            except ValueError as error:
                fix = "write one JSON object on each line"
                raise CommandFailed(f"{path.name}:{number}: {error}", fix=fix, code=Exit.USAGE) from None

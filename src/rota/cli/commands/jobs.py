"""`rota jobs` and `rota status`: list and show jobs, wait for results, cancel and retry."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from rota.cli.api_client import ApiClient
from rota.cli.commands.arguments import api_client_of, duration_of, is_confirmed, json_of, printer_of
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import clean, column, counted, say, shown_json, shown_text
from rota.core.ids import JobId, to_number

PAGE: Final = 500
#: How long one request waits for a job's end.
WAIT_SECONDS: Final = 30
#: The shortest interval of `status --watch`.
SHORTEST_WATCH_SECONDS: Final = 0.2
FINISHED: Final = ("completed", "dead", "cancelled")
#: Exit codes that concern one job and not the API: the other jobs are still acted on.
REFUSALS: Final = (Exit.NOT_FOUND, Exit.CONFLICT, Exit.USAGE)

COLUMNS: Final = (
    column("id"),
    column("type"),
    column("status"),
    column("queue"),
    ("attempts", lambda job: f"{job['attempts']}/{job['max_attempts']}"),
    column("run_at"),
    column("worker", "worker_id"),
    (
        "error",
        lambda job: f"{job['error']['kind']}: {shown_text(job['error']['message'])[:80]}" if job.get("error") else "",
    ),
)


def status(options: argparse.Namespace) -> int:
    """Show health and counts of the deployment, or one job; with --watch again and again."""
    if options.watch is None and options.times is not None:
        raise CommandFailed("--times needs --watch", fix="rota status --watch --times 3", code=Exit.USAGE)
    show = _deployment if options.id is None else get
    code = show(options)
    if options.watch is None:
        return code
    interval = max(duration_of(options.watch, "--watch"), SHORTEST_WATCH_SECONDS)
    for _ in range(options.times - 1) if options.times is not None else count():
        time.sleep(interval)
        if options.output == "table":
            print()
        code = show(options)
    return code


def _deployment(options: argparse.Namespace) -> int:
    api, printer = api_client_of(options), printer_of(options)
    stats, health = api.get("/v1/stats"), api.health()
    if printer.form != "table":
        printer.record({**stats, "health": health["status"], "problems": health["problems"]})
        return Exit.OK
    printer.record(_summary(stats, health))
    for problem in health["problems"]:
        say(f"{problem['code']}: {clean(problem['text'])}\n  fix: {clean(problem['fix'])}")
    return Exit.OK


def _summary(stats: Mapping[str, Any], health: Mapping[str, Any]) -> dict[str, Any]:
    """Return the main figures, and the number of jobs by state."""
    shown: dict[str, Any] = {"health": health["status"]}
    shown |= {name: stats[name] for name in ("due", "queue_depth", "running", "dlq_size")}
    shown["workers"] = f"{stats['workers']} with {stats['slots']} slots, {stats['busy']} busy"
    shown["worker_utilization"] = f"{stats['worker_utilization']:.0%}"
    shown["jobs"] = ", ".join(f"{count} {state}" for state, count in stats["states"].items() if count) or "none"
    if pruned := sum(stats["pruned"].values()):
        shown["pruned"] = pruned
    return shown


def list_jobs(options: argparse.Namespace) -> int:
    filters = {name: getattr(options, name) for name in ("status", "type", "queue", "tag")}
    jobs = listed(api_client_of(options), "/v1/jobs", options.limit, **filters, q=options.query)
    printer_of(options).records(jobs, COLUMNS, empty="no jobs")
    return Exit.OK


def listed(api: ApiClient, path: str, limit: int = sys.maxsize, **query: object) -> list[Mapping[str, Any]]:
    """Read a list page by page, up to a number of records."""
    records: list[Mapping[str, Any]] = []
    cursor = None
    while len(records) < limit:
        page = api.get(path, **query, limit=min(limit - len(records), PAGE), cursor=cursor)
        records += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    return records


def get(options: argparse.Namespace) -> int:
    printer_of(options).record(api_client_of(options).get(f"/tasks/{options.id}"))
    return Exit.OK


def explain(options: argparse.Namespace) -> int:
    """Show why a job is in its state."""
    explanation = api_client_of(options).get(f"/v1/jobs/{options.id}/explain")
    printer = printer_of(options)
    if printer.form != "table":
        printer.record(explanation)
        return Exit.OK
    for reason in explanation["reasons"]:
        print(f"{reason['code']}: {clean(reason['text'])}")
        if reason.get("fix"):
            print(f"  fix: {clean(reason['fix'])}")
    return Exit.OK


def steps(options: argparse.Namespace) -> int:
    records = api_client_of(options).get(f"/v1/jobs/{options.id}/steps")["items"]
    columns = (
        column("key"), column("kind"), column("waits_for", "subject"), column("until"), column("began_at"),
        column("ended_at"), column("result"),
    )  # fmt: skip
    printer_of(options).records(records, columns, empty="no steps", identity="key")
    return Exit.OK


def resolve(options: argparse.Namespace) -> int:
    """Record whether the effect of a step in doubt happened."""
    body = {"key": options.key, "happened": options.happened, "result": json_of(options.result, "result")}
    api = api_client_of(options)
    if api.cipher is not None and options.result is not None:
        from rota.encryption.worker import encrypted_outcome  # noqa: PLC0415 - an extra

        job_id = JobId(to_number(options.id))
        body["result"] = json.loads(encrypted_outcome(api.cipher, job_id, options.key, json.dumps(body["result"])))
    api.post(f"/v1/jobs/{options.id}/steps:resolve", body)
    say(f"resolved; next: rota jobs retry {options.id}")
    return Exit.OK


def attempts(options: argparse.Namespace) -> int:
    records = api_client_of(options).get(f"/v1/jobs/{options.id}/attempts")["items"]
    columns = (
        column("fence"),
        column("worker", "worker_id"),
        column("started_at"),
        column("ended_at"),
        column("event"),
        ("error", lambda attempt: shown_text(attempt["error"]["message"])[:80] if attempt.get("error") else ""),
    )
    printer_of(options).records(records, columns, empty="not yet started", identity="fence")
    return Exit.OK


def result(options: argparse.Namespace) -> int:
    api = api_client_of(options)
    if options.wait is not None:
        return await_end(options, api, options.id, options.wait)
    return _show_end(options, api.get(f"/v1/jobs/{options.id}/result"))


def await_end(options: argparse.Namespace, api: ApiClient, job_id: str, at_most: str) -> int:
    """Wait until a job is finished, and show its result or error."""
    give_up_at = time.monotonic() + duration_of(at_most, "--wait") if at_most else None
    try:
        return _await_end(options, api, job_id, give_up_at)
    except KeyboardInterrupt:
        say(f"job {job_id} is not cancelled; to wait again: rota jobs result {job_id} --wait")
        raise


def _await_end(options: argparse.Namespace, api: ApiClient, job_id: str, give_up_at: float | None) -> int:
    while True:
        left = WAIT_SECONDS if give_up_at is None else min(max(give_up_at - time.monotonic(), 0), WAIT_SECONDS)
        ended = api.get(f"/v1/jobs/{job_id}/result", wait=round(left, 3))
        if ended["status"] in FINISHED:
            return _show_end(options, ended)
        if give_up_at is not None and time.monotonic() >= give_up_at:
            say(f"rota: job {job_id} is still {ended['status']}\nfix: wait longer, or see why it is not finished: "
                f"rota jobs explain {job_id}")  # fmt: skip
            return Exit.TIMED_OUT


def _show_end(options: argparse.Namespace, ended: Mapping[str, Any]) -> int:
    printer = printer_of(options)
    if printer.form != "table":
        printer.record(ended)
    elif ended["status"] == "completed":
        print(shown_json(ended["result"]))
    else:
        error = ended.get("error") or {}
        say(f"rota: job {ended['id']} is {ended['status']} {clean(error.get('kind', ''))}: "
            f"{clean(shown_text(error.get('message', '')))}")  # fmt: skip
    return Exit.JOB_FAILED if ended["status"] in {"dead", "cancelled"} else Exit.OK


def act(options: argparse.Namespace) -> int:
    if options.verb == "retry" and (options.edit or _edits_of(options)):
        return _retry_edited(options)
    if options.match is not None:
        from rota.cli.commands.operations import act_on_matches  # noqa: PLC0415 - it needs this module

        return act_on_matches(options, options.verb.replace("-", "_"), options.match)
    require_match(options)
    count = len(options.ids)
    if not count:
        raise CommandFailed(f"jobs {options.verb}: no job is given", fix="give ids, or --match QUERY", code=Exit.USAGE)
    if (count > 1 or options.dry_run) and not is_confirmed(options, f"{options.verb} {counted(count, 'job')}"):
        return Exit.OK
    api = api_client_of(options)
    refusals = [refusal for job_id in options.ids if (refusal := _act_on(api, options, job_id)) is not None]
    return finished(refusals, count)


def update(options: argparse.Namespace) -> int:
    """Change a waiting job."""
    body = _edits_of(options)
    if not body:
        raise CommandFailed("jobs update: nothing to change", fix="give --payload, --priority, …", code=Exit.USAGE)
    api = api_client_of(options)
    if options.dry_run:
        say(f"would change {', '.join(body)} of job {options.id}")
        return Exit.OK
    api.request("PATCH", f"/v1/jobs/{options.id}", body)
    if not options.quiet:
        say(f"changed {options.id}: {', '.join(body)}")
    return Exit.OK


def duplicate(options: argparse.Namespace) -> int:
    """Submit a new job with the fields of one, and changes."""
    return _copy(options, "duplicate", _edits_of(options))


def _edits_of(options: argparse.Namespace) -> dict[str, Any]:
    """Collect the changes of a job that flags name."""
    body: dict[str, Any] = {
        name: getattr(options, name)
        for name in ("queue", "priority", "max_attempts")
        if getattr(options, name) is not None
    }
    if options.tag is not None:
        body["tags"] = [tag for tag in options.tag if tag]
    if options.run_at is not None:
        body["run_at"] = options.run_at
    if options.delay is not None:
        body["delay"] = options.delay
    if options.payload is not None:
        body["payload"] = json_of(options.payload, "payload")
    return body


def _copy(options: argparse.Namespace, verb: str, body: Mapping[str, Any]) -> int:
    api = api_client_of(options)
    (job_id,) = options.ids if verb == "retry" else (options.id,)
    if options.dry_run:
        say(f"would make a new job from {job_id}, with other {', '.join(body) or 'nothing'}")
        return Exit.OK
    made = api.post(f"/v1/jobs/{job_id}/{verb}", body or None)
    if options.output == "table":
        print(made["id"])
    else:
        printer_of(options).record(made)
    return Exit.OK


def _retry_edited(options: argparse.Namespace) -> int:
    """Retry one job with changes: by flags, or in an editor."""
    if len(options.ids) != 1 or options.match is not None:
        raise CommandFailed("jobs retry with changes: give one job", fix="rota jobs retry ID --edit", code=Exit.USAGE)
    body = _edits_of(options)
    if options.edit:
        job = api_client_of(options).get(f"/v1/jobs/{options.ids[0]}")
        shown = {name: job.get(name) for name in ("payload", "queue", "priority", "max_attempts")}
        shown["tags"] = job.get("tags", [])
        edited = _edited({**shown, **body})
        body = {name: value for name, value in edited.items() if shown.get(name) != value}
        if not body:
            say("nothing was changed; the job is left alone")
            return Exit.OK
    return _copy(options, "retry", body)


def _edited(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Let the user change JSON in an editor, and read it back."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.NamedTemporaryFile("w+", suffix=".json", encoding="utf-8") as file:
        json.dump(shown, file, indent=2, ensure_ascii=False)
        file.flush()
        code = subprocess.run([*editor, file.name], check=False).returncode  # noqa: S603 - the user's own editor
        if code:
            raise CommandFailed(f"the editor {editor[0]!r} ended with {code}", fix="set EDITOR", code=Exit.USAGE)
        edited = json_of(Path(file.name).read_text(encoding="utf-8"), "edit")
    if not isinstance(edited, dict):
        raise CommandFailed("the edited text is no JSON object", fix="leave the braces in place", code=Exit.USAGE)
    return edited


def require_match(options: argparse.Namespace) -> None:
    """Refuse flags that have an effect with --match only."""
    for name in ("rate", "canary"):
        if getattr(options, name, None) is not None:
            raise CommandFailed(f"--{name} has an effect with --match only", fix="add --match QUERY", code=Exit.USAGE)


def _act_on(api: ApiClient, options: argparse.Namespace, job_id: str) -> CommandFailed | None:
    """Act on one job and print the outcome; give the refusal if it was refused."""
    try:
        job = api.post(f"/v1/jobs/{job_id}/{options.verb}")
    except CommandFailed as refusal:
        if refusal.code not in REFUSALS:
            raise
        say(f"{options.verb} {job_id}: {refusal}")
        return refusal
    if not options.quiet:
        is_asked = options.verb == "cancel" and job.get("status") == "running"
        say(f"{options.verb} {job_id}: {'asked to stop; it still runs' if is_asked else 'done'}")
    return None


def finished(refusals: Sequence[CommandFailed], count: int) -> int:
    """Return the exit code of a command over many jobs: that of the first refusal, if there is one."""
    if not refusals:
        return Exit.OK
    if count > 1:
        say(f"{count - len(refusals)} of {count} done, {len(refusals)} refused")
    return refusals[0].code

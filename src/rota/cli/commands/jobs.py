"""Looking at jobs and acting on them."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from rota.cli.commands.setup import is_meant, json_of, printer_of, server_of
from rota.cli.exits import Exit
from rota.cli.output import clean, column, say
from rota.cli.server import Server
from rota.core.duration import parse_duration

PAGE: Final = 500
#: How long one request waits for a job's end.
LOOK_SECONDS: Final = 30
FINISHED: Final = ("completed", "dead", "cancelled")

COLUMNS: Final = (
    column("id"),
    column("type"),
    column("status"),
    column("queue"),
    ("attempts", lambda job: f"{job['attempts']}/{job['max_attempts']}"),
    column("run_at"),
    column("worker", "worker_id"),
    ("error", lambda job: f"{job['error']['kind']}: {job['error']['message'][:80]}" if job.get("error") else ""),
)


def status(options: argparse.Namespace) -> int:
    """Show how the queues stand, or one job."""
    if options.id is not None:
        return get(options)
    server, printer = server_of(options), printer_of(options)
    stats, health = server.get("/v1/stats"), server.get("/health")
    printer.record(stats if printer.form != "table" else _summary(stats, health))
    return Exit.OK


def _summary(stats: Mapping[str, Any], health: Mapping[str, Any]) -> dict[str, Any]:
    """Say how things stand, for people: the main figures, and the states in which there are jobs."""
    shown: dict[str, Any] = {"health": health["status"]}
    if not health["coordinator_health"]:
        shown["health"] += ": the coordinator does not answer; jobs run, and nobody is known to lead"
    shown |= {name: stats[name] for name in ("queue_depth", "running", "dlq_size")}
    shown["workers"] = f"{stats['workers']} with {stats['slots']} slots, {stats['busy']} busy"
    shown["worker_utilization"] = f"{stats['worker_utilization']:.0%}"
    shown["jobs"] = ", ".join(f"{count} {state}" for state, count in stats["states"].items() if count) or "none"
    if pruned := sum(stats["pruned"].values()):
        shown["pruned"] = pruned
    return shown


def list_jobs(options: argparse.Namespace) -> int:
    """List jobs, newest first, page by page."""
    server = server_of(options)
    jobs: list[Mapping[str, Any]] = []
    cursor = None
    while len(jobs) < options.limit:
        page = server.get(
            "/v1/jobs",
            status=options.status,
            type=options.type,
            queue=options.queue,
            tag=options.tag,
            limit=min(options.limit - len(jobs), PAGE),
            cursor=cursor,
        )
        jobs += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    printer_of(options).records(jobs, COLUMNS, empty="no jobs")
    return Exit.OK


def get(options: argparse.Namespace) -> int:
    """Show a job."""
    printer_of(options).record(server_of(options).get(f"/tasks/{options.id}"))
    return Exit.OK


def explain(options: argparse.Namespace) -> int:
    """Say why a job is where it is."""
    told = server_of(options).get(f"/v1/jobs/{options.id}/explain")
    printer = printer_of(options)
    if printer.form != "table":
        printer.record(told)
        return Exit.OK
    for reason in told["reasons"]:
        print(f"{reason['code']}: {clean(reason['text'])}")
        if reason.get("fix"):
            print(f"  fix: {clean(reason['fix'])}")
    return Exit.OK


def steps(options: argparse.Namespace) -> int:
    """Show a job's guarded steps."""
    found = server_of(options).get(f"/v1/jobs/{options.id}/steps")["items"]
    columns = (column("key"), column("began_at"), column("ended_at"), column("result"))
    printer_of(options).records(found, columns, empty="no steps")
    return Exit.OK


def resolve(options: argparse.Namespace) -> int:
    """Say whether the effect of a step in doubt happened."""
    body = {"key": options.key, "happened": options.happened, "result": json_of(options.result, "result")}
    server_of(options).post(f"/v1/jobs/{options.id}/steps:resolve", body)
    say(f"resolved; now: rota jobs retry {options.id}")
    return Exit.OK


def attempts(options: argparse.Namespace) -> int:
    """Show a job's attempts."""
    found = server_of(options).get(f"/v1/jobs/{options.id}/attempts")["items"]
    columns = (
        column("fence"),
        column("worker", "worker_id"),
        column("started_at"),
        column("ended_at"),
        column("event"),
        ("error", lambda attempt: attempt["error"]["message"][:80] if attempt.get("error") else ""),
    )
    printer_of(options).records(found, columns, empty="not yet started")
    return Exit.OK


def result(options: argparse.Namespace) -> int:
    """Show a job's result."""
    server = server_of(options)
    if options.wait is not None:
        return await_end(options, server, options.id, options.wait)
    return _show_end(options, server.get(f"/v1/jobs/{options.id}/result"))


def await_end(options: argparse.Namespace, server: Server, job_id: str, at_most: str) -> int:
    """Wait until a job has ended, at most for a while, and show how."""
    give_up_at = time.monotonic() + parse_duration(at_most, field="wait").total_seconds() if at_most else None
    while True:
        left = LOOK_SECONDS if give_up_at is None else min(max(give_up_at - time.monotonic(), 0), LOOK_SECONDS)
        ended = server.get(f"/v1/jobs/{job_id}/result", wait=round(left, 3))
        if ended["status"] in FINISHED:
            return _show_end(options, ended)
        if give_up_at is not None and time.monotonic() >= give_up_at:
            say(f"rota: job {job_id} is still {ended['status']}\nfix: it goes on; wait longer, or ask why: "
                f"rota jobs explain {job_id}")  # fmt: skip
            return Exit.TIMED_OUT


def _show_end(options: argparse.Namespace, ended: Mapping[str, Any]) -> int:
    printer = printer_of(options)
    if printer.form != "table":
        printer.record(ended)
    elif ended["status"] == "completed":
        print(json.dumps(ended["result"], ensure_ascii=False))
    else:
        error = ended.get("error") or {}
        say(f"rota: job {ended['id']} is {ended['status']} {clean(error.get('kind', ''))}: "
            f"{clean(error.get('message', ''))}")  # fmt: skip
    return Exit.JOB_FAILED if ended["status"] in {"dead", "cancelled"} else Exit.OK


def act(options: argparse.Namespace) -> int:
    """Cancel, retry or start jobs."""
    count = len(options.ids)
    if (count > 1 or options.dry_run) and not is_meant(options, f"{options.verb} {count} jobs"):
        return Exit.OK
    server = server_of(options)
    for job_id in options.ids:
        server.post(f"/v1/jobs/{job_id}/{options.verb}")
        if not options.quiet:
            say(f"{options.verb} {job_id}: done")
    return Exit.OK

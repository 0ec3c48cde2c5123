"""`rota bench`: reads the flags into a plan, runs it, and prints the report."""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
from typing import NoReturn

from rota._loop import new_loop
from rota.bench.http_target import HttpTarget
from rota.bench.plan import (
    JOB_OVERHEAD,
    LARGEST_BATCH,
    LARGEST_BODY,
    LONGEST_SECONDS,
    MOST_CONNECTIONS,
    BenchPlan,
    BenchRefused,
)
from rota.bench.report import BenchReport
from rota.bench.run import BenchRun
from rota.bench.store_target import StoreTarget
from rota.bench.targets import RequestFailed, Target
from rota.cli.commands.arguments import api_client_of, settings_of
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import Progress, clean, say
from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest, RotaError
from rota.core.redaction import redacted
from rota.runtime.link import connect
from rota.runtime.namespace_stores import require_store, store_url


def run(options: argparse.Namespace) -> int:
    """Load a deployment, print the report, and delete the jobs."""
    plan = plan_of(options)
    # Called before the load, so that an unreachable server is reported as by every command.
    store = "" if options.store else str(api_client_of(options).get("/v1/system")["store"])
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            report = runner.run(_run_plan(options, plan, store))
    except BenchRefused as refusal:
        raise CommandFailed(str(refusal), fix=refusal.fix) from None
    except RequestFailed as failure:
        raise CommandFailed(f"the deployment fails: {failure}", fix="see `rota status`, and the API's log") from None
    except RotaError as error:
        raise CommandFailed(str(error), fix="see `rota config show --origin`") from error
    if options.output == "table":
        print("\n".join(map(clean, report.lines())))
    else:
        print(json.dumps(report.record(), ensure_ascii=False, indent=2 if options.output == "json" else None))
    return _exit_of(report)


def plan_of(options: argparse.Namespace) -> BenchPlan:
    """Read the flags; refuse a bad one with its name and a remedy."""
    if options.output not in {"table", "json", "jsonl"}:
        _refuse(f"--output {options.output}: the report is not a list", "choose table, json or jsonl")
    seconds = _seconds(options.duration, "duration")
    if not 0 < seconds <= LONGEST_SECONDS:
        _refuse(f"--duration {options.duration}: must be more than 0 and at most a day", "try 10s")
    _require_between("connections", options.connections, 1, MOST_CONNECTIONS)
    _require_between("batch", options.batch, 1, LARGEST_BATCH)
    _require_between("payload-size", options.payload_size, 2, LARGEST_BODY)
    if options.rate is not None and not 0 < options.rate < float("inf"):
        _refuse(f"--rate {options.rate:g}: must be more than 0", "leave it out to submit as fast as possible")
    size = options.batch * (options.payload_size + JOB_OVERHEAD)
    if size > LARGEST_BODY:
        cause = f"--batch {options.batch} of --payload-size {options.payload_size}: a request would have about {size:,}"
        _refuse(f"{cause} bytes; the API takes {LARGEST_BODY:,}", "make one of them smaller")
    return BenchPlan(
        seconds=seconds,
        connections=options.connections,
        batch=options.batch,
        payload=json.dumps("x" * (options.payload_size - 2)),
        queue=options.queue,
        tag=f"bench-{secrets.token_hex(4)}",
        rate=options.rate,
        is_to_run=options.wait is not None,
        wait_seconds=_seconds(options.wait, "wait") if options.wait else None,
        is_kept=options.keep,
    )


def _seconds(text: str, name: str) -> float:
    try:
        return parse_duration(text, field=f"--{name}").total_seconds()
    except InvalidRequest as error:
        raise CommandFailed(str(error), fix=f"as in --{name} 10s", code=Exit.USAGE) from None


def _require_between(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        _refuse(f"--{name} {value}: must be between {least} and {most:,}", f"see `rota bench --help` for --{name}")


def _refuse(cause: str, fix: str) -> NoReturn:
    raise CommandFailed(cause, fix=fix, code=Exit.USAGE)


async def _run_plan(options: argparse.Namespace, plan: BenchPlan, store: str) -> BenchReport:
    target = await _target(options, plan, store)
    try:
        return await BenchRun(plan, target, progress=Progress, say=_say_nothing if options.quiet else say).run()
    finally:
        await target.close()


def _say_nothing(text: str) -> None:
    del text


async def _target(options: argparse.Namespace, plan: BenchPlan, store: str) -> Target:
    settings = settings_of(options)
    if options.store:
        url = store_url(settings.store, settings.namespace)
        if settings.namespace:
            await require_store(url, settings.namespace)
        return StoreTarget(plan, await connect(url, namespace=settings.namespace), redacted(url))
    return HttpTarget(plan, settings.api_url, settings.token, store, settings.client_tls, settings.namespace)


def _exit_of(report: BenchReport) -> Exit:
    if report.is_interrupted:
        return Exit.INTERRUPTED
    if not report.load.ids:
        return Exit.ERROR
    return Exit.TIMED_OUT if report.completion is not None and report.completion.is_timed_out else Exit.OK

"""Loading a deployment and saying what limits it."""

from __future__ import annotations

import argparse
import asyncio
import json

from rota.cli.bench.course import Course
from rota.cli.bench.on_store import OnStore
from rota.cli.bench.over_http import OverHttp
from rota.cli.bench.plan import Plan, plan_of
from rota.cli.bench.report import Report
from rota.cli.bench.targets import Target, Trouble
from rota.cli.commands.setup import server_of, settings_of
from rota.cli.exits import CommandFailed, Exit
from rota.core.errors import RotaError
from rota.core.redaction import redacted
from rota.loops import new_loop
from rota.runtime.link import connect


def run(options: argparse.Namespace) -> int:
    """Load a deployment, print what was seen, and take away what was made."""
    plan = plan_of(options)
    # Asked before the load begins, so that whatever is wrong is told as every command tells it.
    store = "" if options.store else str(server_of(options).get("/v1/system")["store"])
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            report = runner.run(_loaded(options, plan, store))
    except Trouble as trouble:
        raise CommandFailed(f"the deployment fails: {trouble}", fix="see `rota status`, and the API's log") from None
    except RotaError as error:
        raise CommandFailed(str(error), fix="see `rota config show --origin`") from error
    if options.output == "table":
        print("\n".join(report.lines()))
    else:
        print(json.dumps(report.record(), ensure_ascii=False, indent=2 if options.output == "json" else None))
    return _exit_of(report)


async def _loaded(options: argparse.Namespace, plan: Plan, store: str) -> Report:
    target = await _target(options, plan, store)
    try:
        return await Course(plan, target, is_quiet=options.quiet).run()
    finally:
        await target.close()


async def _target(options: argparse.Namespace, plan: Plan, store: str) -> Target:
    settings = settings_of(options)
    if options.store:
        return OnStore(plan, await connect(settings.store), redacted(settings.store))
    return OverHttp(plan, settings.api_url, settings.token, store)


def _exit_of(report: Report) -> Exit:
    if report.is_interrupted:
        return Exit.INTERRUPTED
    if not report.found.ids:
        return Exit.ERROR
    return Exit.TIMED_OUT if report.run is not None and report.run.is_out_of_patience else Exit.OK

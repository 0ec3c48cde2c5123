"""The tree of commands: names, flags and help. The code of a command is in `commands/`, imported when it runs."""

from __future__ import annotations

import argparse
from typing import Final

from rota import __version__
from rota.cli.output import FORMATS
from rota.cli.parser import Parser
from rota.settings import OPTIONS


def build() -> Parser:
    parser = Parser(
        prog="rota",
        description="A durable task queue and scheduler for Python: SQLite to start, PostgreSQL or MariaDB to scale.",
        epilog="Every flag has an environment variable: --api-url is ROTA_API_URL.",
    )
    parser.add_argument("--version", action="version", version=f"rota {__version__}")
    shared = global_flags()
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=Parser)
    _add_roles(commands)
    _add_submit(commands, shared)
    _add_jobs(commands, shared)
    _add_dead_letters(commands, shared)
    _add_schedules(commands, shared)
    _add_rest(commands, shared)
    return parser


def _count(text: str) -> int:
    """Read a whole number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def global_flags() -> Parser:
    """Make the parser of the flags that every command takes."""
    shared = Parser(add_help=False)
    group = shared.add_argument_group("everywhere")
    group.add_argument("--api-url", metavar="URL", help=OPTIONS["api_url"].help)
    group.add_argument("--token", help="the bearer token; better kept in ROTA_TOKEN")
    group.add_argument("-o", "--output", choices=FORMATS, default="table", help="how to print")
    group.add_argument(
        "--time", choices=("relative", "iso", "local", "utc"), default="relative", help="how to show times"
    )
    group.add_argument("-q", "--quiet", action="store_true", help="print data only")
    group.add_argument("-v", "--verbose", action="store_true", help="show tracebacks")
    return shared


def _command(
    commands: argparse._SubParsersAction[Parser],
    name: str,
    run: str,
    description: str,
    shared: Parser,
) -> Parser:
    parser = commands.add_parser(name, help=description, description=description, parents=[shared])
    parser.set_defaults(run=run, leaf=parser)
    return parser


def _group(
    commands: argparse._SubParsersAction[Parser], name: str, description: str
) -> argparse._SubParsersAction[Parser]:
    parser = commands.add_parser(name, help=description, description=description)
    return parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="sub_command", required=True, parser_class=Parser
    )


_ROLE_FLAGS = {
    "store": ("--store", "--db"),
    "broker": ("--broker",),
    "coordinator": ("--coordinator",),
    "host": ("--host",),
    "port": ("--port",),
    "app": ("--app",),
    "worker_id": ("--worker-id",),
    "worker_address": ("--worker-address",),
    "queues": ("--queues",),
    "concurrency": ("--concurrency",),
    "lease": ("--lease",),
    "poll_interval": ("--poll-interval",),
    "start_timeout": ("--start-timeout",),
    "drain_timeout": ("--drain-timeout",),
    "queue_size": ("--queue-size",),
    "fail_rate": ("--fail-rate",),
    "log_level": ("--log-level",),
    "log_format": ("--log-format",),
}


#: Settings with an effect only on workers, or only where the API may be served.
_WORKER_SETTINGS: Final = frozenset(
    {"worker_id", "worker_address", "queues", "concurrency", "lease", "poll_interval", "drain_timeout", "fail_rate"}
)
_API_SETTINGS: Final = frozenset({"host", "port"})
_UNUSED: Final = {
    "standalone": frozenset[str](),
    "scheduler": _WORKER_SETTINGS,
    "api": _WORKER_SETTINGS,
    "worker": _API_SETTINGS,
}


def _role_flags(role: str) -> Parser:
    """Make the parser of the global flags that have an effect on a role."""
    shared = Parser(add_help=False)
    group = shared.add_argument_group("everywhere")
    if role == "worker":
        group.add_argument("--api-url", metavar="URL", help=OPTIONS["api_url"].help)
    group.add_argument("--token", help="the bearer token; better kept in ROTA_TOKEN")
    group.add_argument("-v", "--verbose", action="store_true", help="show tracebacks")
    return shared


def _add_roles(commands: argparse._SubParsersAction[Parser]) -> None:
    for name, description in (
        ("standalone", "API, scheduler and worker in one process"),
        ("scheduler", "scheduler: due jobs, schedules, lapsed leases, retention; with --port also the API"),
        ("api", "serve the API"),
        ("worker", "run jobs, from an API or straight from a store"),
    ):
        parser = _command(commands, name, "roles:run", description, _role_flags(name))
        for setting, flags in _ROLE_FLAGS.items():
            if setting in _UNUSED[name]:
                continue
            parser.add_argument(*flags, dest=setting, metavar=setting.upper(), help=OPTIONS[setting].help)
        parser.add_argument("--insecure", action="store_const", const=True, help=OPTIONS["insecure"].help)
        if name != "worker":
            parser.add_argument(
                "--no-ui", dest="ui", action="store_const", const=False, help="do not serve the dashboard at /ui"
            )


def _add_submit(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    parser = _command(commands, "submit", "submit:submit", "submit a job, or a recurring one", shared)
    parser.add_argument("--type", help="the task to run; `default` if not given")
    parser.add_argument("--payload", help="JSON, @file, or - for standard input")
    parser.add_argument("--max-attempts", type=int, help="the most attempts")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--cron", help="create a schedule with a cron expression")
    when.add_argument("--every", help="create a schedule with an interval such as 5m")
    when.add_argument("--at", help="run at a time, in RFC 3339")
    when.add_argument("--in", dest="delay", help="run after a duration such as 90s")
    parser.add_argument("--tz", help="the zone of --cron")
    parser.add_argument("--priority", type=int, help="1 low to 10 high")
    parser.add_argument("--queue", help="the queue it waits in")
    parser.add_argument("--key", help="an idempotency key: submitting twice makes one job")
    parser.add_argument("--timeout", help="how long an attempt may take")
    parser.add_argument("--concurrency-key", help="jobs with the same key run one at a time, or as its limit says")
    parser.add_argument("--tag", action="append", help="a tag to find it by; may be repeated")
    parser.add_argument("--on-success", metavar="TYPE", help="the task to run when it is completed")
    parser.add_argument("--on-failure", metavar="TYPE", help="the task to run when it is dead")
    parser.add_argument("--wait", nargs="?", const="", metavar="DURATION", help="wait for its result")
    parser.add_argument("--from", dest="source", metavar="FILE", help="submit every line of a JSONL file")
    parser.add_argument("--dry-run", action="store_true", help="show what would be submitted")
    status = _command(commands, "status", "jobs:status", "health and counts of the deployment, or one job", shared)
    status.add_argument("id", nargs="?", help="a job")


def _add_jobs(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    jobs = _group(commands, "jobs", "look at jobs and act on them")
    listing = _command(jobs, "list", "jobs:list_jobs", "list jobs, newest first", shared)
    for name in ("status", "type", "queue", "tag"):
        listing.add_argument(f"--{name}", help=f"only this {name}")
    listing.add_argument("--limit", type=_count, default=50, help="how many at most")
    for name, run, description in (
        ("get", "jobs:get", "show a job"),
        ("explain", "jobs:explain", "explain why a job is in its state"),
        ("attempts", "jobs:attempts", "show a job's attempts"),
        ("steps", "jobs:steps", "show a job's guarded steps"),
    ):
        _command(jobs, name, run, description, shared).add_argument("id", help="the job")
    resolve = _command(jobs, "resolve", "jobs:resolve", "record whether the effect of a step in doubt happened", shared)
    resolve.add_argument("id", help="the job")
    resolve.add_argument("key", help="the step")
    said = resolve.add_mutually_exclusive_group(required=True)
    said.add_argument("--happened", action="store_true", help="its effect happened; a retry uses its result")
    said.add_argument("--not-happened", action="store_true", help="it did not; a retry performs it")
    resolve.add_argument("--result", default="null", metavar="JSON", help="the result of the effect")
    result = _command(jobs, "result", "jobs:result", "show a job's result", shared)
    result.add_argument("id", help="the job")
    result.add_argument("--wait", nargs="?", const="", metavar="DURATION", help="wait until it is finished")
    for name, description in (
        ("cancel", "cancel jobs, or ask running ones to stop"),
        ("retry", "run jobs again"),
        ("run-now", "start scheduled and retrying jobs now"),
    ):
        parser = _command(jobs, name, "jobs:act", description, shared)
        parser.add_argument("ids", nargs="+", metavar="ID", help="the jobs")
        parser.set_defaults(verb=name)
        _add_caution(parser)


def _add_caution(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="show what would be done")


def _add_dead_letters(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    letters = _group(commands, "dlq", "dead letters: jobs in state dead")
    listing = _command(letters, "list", "dead_letters:list_letters", "list dead jobs", shared)
    listing.add_argument("--group", action="store_true", help="by cause")
    listing.add_argument("--limit", type=_count, default=50, help="how many at most")
    _command(letters, "show", "jobs:get", "show a dead job", shared).add_argument("id", help="the job")
    for name, description in (("retry", "run dead jobs again"), ("discard", "delete dead jobs for good")):
        parser = _command(letters, name, "dead_letters:act", description, shared)
        parser.add_argument("ids", nargs="*", metavar="ID", help="the jobs")
        parser.add_argument("--all", action="store_true", help="all of them")
        parser.set_defaults(verb=name)
        _add_caution(parser)


def _add_schedules(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    schedules = _group(commands, "schedules", "recurring jobs")
    _command(schedules, "list", "schedules:list_schedules", "list schedules", shared)
    create = _command(schedules, "create", "schedules:create", "create a schedule", shared)
    create.add_argument("name", help="its name")
    create.add_argument("--type", required=True, help="the task to run")
    create.add_argument("--cron", required=True, help="a cron expression, or @every 5m")
    create.add_argument("--tz", default="UTC", help="the zone of --cron")
    create.add_argument("--payload", default="null", help="JSON, @file, or - for standard input")
    create.add_argument("--queue", help="the queue its jobs wait in")
    create.add_argument("--max-attempts", type=int, help="the most attempts of each job")
    create.add_argument(
        "--overlap",
        choices=("allow", "skip", "queue", "cancel_previous"),
        help="what to do if the previous job still runs",
    )
    create.add_argument("--catch-up", choices=("skip", "latest", "all"), help="what to do about missed times")
    create.add_argument("--dry-run", action="store_true", help="show the next runs only")
    for name, description in (
        ("pause", "stop a schedule"),
        ("resume", "resume a schedule"),
        ("run-now", "run a schedule once, now"),
        ("delete", "delete a schedule; its jobs stay"),
    ):
        parser = _command(schedules, name, "schedules:act", description, shared)
        parser.add_argument("name", help="its name or id")
        parser.set_defaults(verb=name)
        _add_caution(parser)
    upcoming = _command(schedules, "next", "schedules:upcoming", "show the next runs of a schedule", shared)
    upcoming.add_argument("name", help="its name or id")
    upcoming.add_argument("-n", type=_count, default=10, help="how many")
    preview = _command(schedules, "preview", "schedules:preview", "show when an expression would run", shared)
    preview.add_argument("expression", help="a cron expression")
    preview.add_argument("--tz", default="UTC", help="its zone")
    preview.add_argument("-n", type=_count, default=10, help="how many")


def _add_limits(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    limits = _group(commands, "limits", "limits: how many jobs run at once, and how often they start")
    _command(limits, "list", "limits:list_limits", "list limits", shared)
    for action, does in (
        ("get", "show a limit with what runs and waits under it"),
        ("set", "set a limit"),
        ("delete", "delete a limit"),
        ("close", "start no jobs under a limit; running ones continue"),
        ("open", "open a closed limit"),
    ):
        command = _command(limits, action, f"limits:{action}", does, shared)
        command.add_argument("name", help="queue:<queue>, task:<type> or key:<concurrency key>")
        if action == "set":
            command.add_argument("--max-running", type=int, help="how many jobs may run at once")
            command.add_argument("--rate-limit", help="how often jobs may start, such as 10/s or 100/s, 1000/h")
            command.add_argument("--per-key-max-running", type=int, help="the same for each key that the task makes")
            command.add_argument("--per-key-rate-limit", help="the same for each key that the task makes")
        if action == "close":
            command.add_argument("--until", help="the time at which it opens, in RFC 3339; else it stays closed")
            command.add_argument("--reason", default="", help="the reason, shown by explain")


def _add_rest(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    workers = _group(commands, "workers", "workers and their slots")
    _command(workers, "list", "cluster:list_workers", "list workers", shared)
    queues = _group(commands, "queues", "queues: pause, resume, limit")
    _command(queues, "list", "queues:list_queues", "list queues", shared)
    pause = _command(queues, "pause", "queues:pause", "pause a queue: its jobs are not claimed", shared)
    pause.add_argument("name", help="the queue; a new name may be paused before its first job")
    pause.add_argument("--reason", default="", help="the reason, shown by explain and status")
    limit = _command(queues, "set-limit", "queues:limit", "set how many jobs may wait in a queue", shared)
    limit.add_argument("name", help="the queue")
    limit.add_argument(
        "--max-depth", type=int, help="the most waiting jobs; without it, the limit of the queue is removed"
    )
    _command(queues, "resume", "queues:resume", "resume a queue", shared).add_argument("name", help="the queue")
    _add_limits(commands, shared)
    cluster = _group(commands, "cluster", "leader, members and shared configuration")
    _command(cluster, "show", "cluster:show", "show the leader and the shared configuration", shared)
    _command(cluster, "members", "cluster:members", "list all live processes", shared)
    configure = _command(
        cluster,
        "set",
        "cluster:configure",
        "set a value of the shared configuration, for all running processes",
        shared,
    )
    configure.add_argument("key", help="such as log_level")
    configure.add_argument("value", help="such as debug")
    forget = _command(
        cluster,
        "unset",
        "cluster:forget",
        "remove a value of the shared configuration; each process uses its own settings again",
        shared,
    )
    forget.add_argument("key", help="such as log_level")
    config = _group(commands, "config", "settings")
    show = _command(config, "show", "config:show", "show every setting", shared)
    show.add_argument("--origin", action="store_true", help="show where each came from")
    store = _group(commands, "db", "the store")
    for name, description in (
        ("migrate", "migrate the store to the schema of this release"),
        ("status", "show its migrations"),
        ("check", "look for damage, and for database settings that endanger the data"),
    ):
        parser = _command(store, name, f"database:{name}", description, shared)
        parser.add_argument("--store", "--db", dest="store", help=OPTIONS["store"].help)
    ledger = _group(commands, "ledger", "the audit log of what operators did")
    verify = _command(
        ledger, "verify", "database:verify", "verify its hash chain, and name the first wrong entry", shared
    )
    verify.add_argument("--store", "--db", dest="store", help=OPTIONS["store"].help)
    _add_bench(commands, shared)
    _command(commands, "version", "config:version", "show the version", shared)


def _add_bench(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    parser = _command(
        commands, "bench", "bench:run", "load your deployment, measure it, and say what limits it", shared
    )
    parser.add_argument("--store", "--db", dest="store", help="load this store itself instead of an API")
    parser.add_argument("--rate", type=float, metavar="N", help="jobs a second; without it, as fast as possible")
    parser.add_argument("--duration", default="10s", help="how long to submit; 10s")
    parser.add_argument(
        "--connections", "--callers", type=int, default=16, metavar="N", help="the number of concurrent callers; 16"
    )
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="the number of jobs in one request; 1")
    parser.add_argument("--payload-size", type=int, default=100, metavar="BYTES", help="the size of each payload; 100")
    parser.add_argument("--queue", default="rota-bench", help="the queue to load; rota-bench")
    parser.add_argument(
        "--wait", nargs="?", const="", metavar="DURATION", help="wait until the jobs have run, and measure that"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the jobs; without it, those that did not run are deleted"
    )
    parser.add_argument(
        "--json", dest="output", action="store_const", const="json", default=argparse.SUPPRESS, help="as -o json"
    )

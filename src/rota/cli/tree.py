"""The tree of commands: names, flags and help. The code of a command is in `commands/`, imported when it runs."""

from __future__ import annotations

import argparse
from typing import Final

from rota import __version__
from rota.cli.output import FORMATS
from rota.cli.parser import Parser, add_caution, add_command, add_group, count_of
from rota.cli.system_tree import add_system
from rota.settings import OPTIONS


def build() -> Parser:
    parser = Parser(
        prog="rota",
        description="A durable task queue and scheduler for Python: SQLite to start, PostgreSQL or MariaDB to scale.",
        epilog="Settings have environment variables: --api-url is ROTA_API_URL. `rota config show` lists them.",
    )
    parser.add_argument("--version", action="version", version=f"rota {__version__}")
    shared = global_flags()
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=Parser)
    _add_roles(commands)
    _add_submit(commands, shared)
    _add_jobs(commands, shared)
    _add_dead_letters(commands, shared)
    _add_operations(commands, shared)
    _add_workflows(commands, shared)
    _add_events(commands, shared)
    _add_schedules(commands, shared)
    add_system(commands, shared)
    return parser


def global_flags() -> Parser:
    """Make the parser of the flags that every command takes."""
    shared = Parser(add_help=False)
    group = shared.add_argument_group("everywhere")
    group.add_argument("--api-url", metavar="URL", help=OPTIONS["api_url"].help)
    group.add_argument("--token", help="the bearer token; better kept in ROTA_TOKEN")
    group.add_argument("--namespace", metavar="NAME", help=OPTIONS["namespace"].help)
    _add_client_tls(group)
    group.add_argument("-o", "--output", choices=FORMATS, default="table", help="how to print")
    group.add_argument(
        "--time", choices=("relative", "iso", "local", "utc"), default="relative", help="how to show times"
    )
    group.add_argument("-q", "--quiet", action="store_true", help="print data only")
    group.add_argument("-v", "--verbose", action="store_true", help="show tracebacks")
    return shared


def _add_client_tls(group: argparse._ArgumentGroup) -> None:
    for name in ("ca_file", "client_cert", "client_key"):
        group.add_argument(f"--{name.replace('_', '-')}", metavar="FILE", help=OPTIONS[name].help)


_ROLE_FLAGS = {
    "store": ("--store", "--db"),
    "namespace": ("--namespace",),
    "broker": ("--broker",),
    "coordinator": ("--coordinator",),
    "host": ("--host",),
    "port": ("--port",),
    "tls_cert": ("--tls-cert",),
    "tls_key": ("--tls-key",),
    "tls_client_ca": ("--tls-client-ca",),
    "behind_proxy": ("--behind-proxy",),
    "proxy_user_header": ("--proxy-user-header",),
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
_API_SETTINGS: Final = frozenset({"host", "port", "proxy_user_header"})
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
        _add_client_tls(group)
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
        parser = add_command(commands, name, "roles:run", description, _role_flags(name))
        for setting, flags in _ROLE_FLAGS.items():
            if setting in _UNUSED[name]:
                continue
            parser.add_argument(*flags, dest=setting, metavar=setting.upper(), help=OPTIONS[setting].help)
        parser.add_argument("--insecure", action="store_const", const=True, help=OPTIONS["insecure"].help)
        if name != "worker":
            parser.add_argument("--read-only", action="store_const", const=True, help=OPTIONS["read_only"].help)
            parser.add_argument(
                "--no-ui", dest="ui", action="store_const", const=False, help="do not serve the dashboard at /ui"
            )


def _add_submit(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    parser = add_command(commands, "submit", "submit:submit", "submit a job, or a recurring one", shared)
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
    parser.add_argument("--unique-for", metavar="TIME", help="make no job if an equal one was made within this time")
    parser.add_argument(
        "--unique-by", action="append", metavar="NAME", help="an argument that makes jobs equal; repeatable"
    )
    parser.add_argument("--unique-key", metavar="TEXT", help="a text that makes jobs equal, instead of arguments")
    parser.add_argument(
        "--unique-state", action="append", metavar="STATE", help="a state in which an earlier job counts; repeatable"
    )
    parser.add_argument(
        "--debounce", metavar="TIME", help="start when there was no other for this time, with the last payload"
    )
    parser.add_argument("--max-wait", metavar="TIME", help="the longest wait of a debounced job")
    parser.add_argument("--throttle", metavar="TIME", help="make at most one job in this time")
    parser.add_argument("--timeout", help="how long an attempt may take")
    parser.add_argument("--expires", metavar="TIME", help="do not start it later than this long after its time")
    parser.add_argument(
        "--delivery", choices=("at_least_once", "at_most_once"), help="at_most_once: never start it a second time"
    )
    parser.add_argument("--breaker", help="the circuit breaker it waits for; {host} for that of an http job's URL")
    parser.add_argument("--concurrency-key", help="jobs with the same key run one at a time, or as its limit says")
    parser.add_argument("--tag", action="append", help="a tag to find it by; may be repeated")
    parser.add_argument("--after", action="append", metavar="ID", help="run after the success of a job; repeatable")
    parser.add_argument("--on-success", metavar="TYPE", help="the task to run when it is completed")
    parser.add_argument("--on-failure", metavar="TYPE", help="the task to run when it is dead")
    parser.add_argument("--wait", nargs="?", const="", metavar="DURATION", help="wait for its result")
    parser.add_argument("--follow", action="store_true", help="show what its handler logs until it has ended")
    parser.add_argument("--from", dest="source", metavar="FILE", help="submit every line of a JSONL file")
    parser.add_argument("--dry-run", action="store_true", help="check the submission without a server, and show it")
    status = add_command(commands, "status", "jobs:status", "health and counts of the deployment, or one job", shared)
    status.add_argument("id", nargs="?", help="a job")
    status.add_argument(
        "--watch",
        nargs="?",
        const="2s",
        metavar="INTERVAL",
        help="show it again and again, every 2s, until interrupted",
    )
    status.add_argument(
        "--times", type=count_of, metavar="N", help="with --watch: how often; without it, until interrupted"
    )


def _add_jobs(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    jobs = add_group(commands, "jobs", "jobs: list, show, edit, cancel, retry")
    listing = add_command(jobs, "list", "jobs:list_jobs", "list jobs, newest first", shared)
    listing.add_argument("query", nargs="?", metavar="QUERY", help="a search, such as 'status:dead type:mail* -tag:x'")
    for name in ("status", "type", "queue", "tag"):
        listing.add_argument(f"--{name}", help=f"only this {name}")
    listing.add_argument("--limit", type=count_of, default=50, help="how many at most")
    for name, run, description in (
        ("get", "jobs:get", "show a job"),
        ("explain", "jobs:explain", "explain why a job is in its state"),
        ("attempts", "jobs:attempts", "show a job's attempts"),
        ("steps", "jobs:steps", "show a job's guarded steps and waits"),
    ):
        add_command(jobs, name, run, description, shared).add_argument("id", help="the job")
    logs = add_command(jobs, "logs", "logs:logs", "show what a job's handler logged", shared)
    logs.add_argument("id", help="the job")
    logs.add_argument("--attempt", type=count_of, metavar="N", help="of this attempt, from 1; unset, the last one")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the job has ended")
    resolve = add_command(
        jobs, "resolve", "jobs:resolve", "record whether the effect of a step in doubt happened", shared
    )
    resolve.add_argument("id", help="the job")
    resolve.add_argument("key", help="the step")
    answer = resolve.add_mutually_exclusive_group(required=True)
    answer.add_argument("--happened", action="store_true", help="its effect happened; a retry uses its result")
    answer.add_argument("--not-happened", action="store_true", help="it did not; a retry performs it")
    resolve.add_argument("--result", default="null", metavar="JSON", help="the result of the effect")
    result = add_command(jobs, "result", "jobs:result", "show a job's result", shared)
    result.add_argument("id", help="the job")
    result.add_argument("--wait", nargs="?", const="", metavar="DURATION", help="wait until it is finished")
    for name, description in (
        ("cancel", "cancel jobs, or ask running ones to stop"),
        ("retry", "run jobs again"),
        ("run-now", "start scheduled and retrying jobs now"),
    ):
        parser = add_command(jobs, name, "jobs:act", description, shared)
        parser.add_argument("ids", nargs="*", metavar="ID", help="the jobs")
        _add_match(parser, "all jobs of a search, such as 'status:dead type:mail*'", has_canary=name != "cancel")
        parser.set_defaults(verb=name)
        if name == "retry":
            parser.add_argument(
                "--edit", action="store_true", help="change one finished job in $EDITOR first: a new job"
            )
            _add_edits(parser, "retry one finished job as a new job with")
        add_caution(parser)
    for name, run, description in (
        ("update", "jobs:update", "change a job that waits"),
        ("duplicate", "jobs:duplicate", "submit a new job with the fields of one, and changes"),
    ):
        parser = add_command(jobs, name, run, description, shared)
        parser.add_argument("id", help="the job")
        _add_edits(parser, "give it")
        parser.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")


def _add_edits(parser: argparse.ArgumentParser, start: str) -> None:
    parser.add_argument("--payload", metavar="JSON", help=f"{start} this payload: JSON, @file or -")
    parser.add_argument("--queue", help=f"{start} this queue")
    parser.add_argument("--priority", type=int, metavar="1-10", help=f"{start} this priority")
    parser.add_argument("--max-attempts", type=int, metavar="N", help=f"{start} so many attempts")
    parser.add_argument("--tag", action="append", help=f"{start} this tag instead of its own; repeatable, '' for none")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--at", dest="run_at", metavar="TIME", help=f"{start} this time, in RFC 3339")
    when.add_argument("--in", dest="delay", metavar="DURATION", help=f"{start} a time after a duration such as 90s")


def _add_match(parser: argparse.ArgumentParser, description: str, *, has_canary: bool = True) -> None:
    parser.add_argument("--match", metavar="QUERY", help=f"{description}; done by the scheduler, see `rota ops`")
    parser.add_argument("--rate", type=float, metavar="N", help="with --match: the most jobs a second")
    if has_canary:
        parser.add_argument(
            "--canary",
            type=count_of,
            metavar="N",
            help="with --match: act on this many first; on the rest only if they succeed",
        )


def _add_operations(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    operations = add_group(commands, "ops", "operations: actions on all jobs of a search")
    listing = add_command(operations, "list", "operations:list_operations", "list operations, newest first", shared)
    listing.add_argument("--limit", type=count_of, default=50, help="how many at most")
    for name, description in (
        ("get", "show an operation and how far it is"),
        ("cancel", "cancel an operation; what it has done stays done"),
    ):
        parser = add_command(operations, name, f"operations:{name}", description, shared)
        parser.add_argument("id", help="the operation")


def _add_workflows(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    workflows = add_group(commands, "workflows", "workflows: graphs of jobs")
    submit = add_command(workflows, "submit", "workflows:submit", "submit a graph of jobs, all of them or none", shared)
    submit.add_argument("graph", help="JSON with name and nodes, @file, or - for standard input")
    listing = add_command(workflows, "list", "workflows:list_workflows", "list workflows, newest first", shared)
    listing.add_argument("--limit", type=count_of, default=50, help="how many at most")
    get = add_command(workflows, "get", "workflows:get", "show a workflow, its nodes and how far it is", shared)
    graph = add_command(workflows, "graph", "workflows:graph", "draw the graph of a workflow", shared)
    graph.add_argument("--mermaid", action="store_true", help="as a Mermaid diagram")
    cancel = add_command(workflows, "cancel", "workflows:cancel", "cancel all jobs of a workflow", shared)
    retry = add_command(
        workflows, "retry", "workflows:retry", "run failed nodes again, and all nodes after them", shared
    )
    skip = add_command(workflows, "skip", "workflows:skip", "skip a node; those after it go on", shared)
    for parser in (get, graph, cancel, retry, skip):
        parser.add_argument("id", help="the workflow")
    retry.add_argument("--node", help="run again from this node instead of from those that failed")
    skip.add_argument("node", help="the node")
    for parser in (cancel, retry, skip):
        add_caution(parser)


def _add_events(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    events = add_group(commands, "events", "events that jobs wait for")
    emit = add_command(events, "emit", "events:emit", "emit an event; the first emission of a name counts", shared)
    emit.add_argument("name", help="the event, such as paid:7")
    emit.add_argument("--payload", default="null", help="JSON, @file, or - for standard input")
    emit.add_argument("--keep", metavar="DURATION", help="how long it answers waits; 30 days if not given")
    get = add_command(events, "get", "events:get", "show an event that was emitted", shared)
    get.add_argument("name", help="the event")


def _add_dead_letters(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    letters = add_group(commands, "dlq", "dead letters: jobs in state dead")
    listing = add_command(letters, "list", "dead_letters:list_dead_letters", "list dead jobs", shared)
    listing.add_argument("--group", action="store_true", help="by cause")
    listing.add_argument("--limit", type=count_of, default=50, help="how many at most")
    add_command(letters, "show", "jobs:get", "show a dead job", shared).add_argument("id", help="the job")
    note = add_command(letters, "note", "dead_letters:note", "set or remove the note on a cause of dead jobs", shared)
    note.add_argument("cause", help="its fingerprint; for jobs that died without an error, their type")
    note.add_argument("text", nargs="?", help="the note")
    note.add_argument("--remove", action="store_true", help="remove the note")
    for name, description in (("retry", "run dead jobs again"), ("discard", "delete dead jobs for good")):
        parser = add_command(letters, name, "dead_letters:act", description, shared)
        parser.add_argument("ids", nargs="*", metavar="ID", help="the jobs")
        parser.add_argument("--all", action="store_true", help="all of them")
        _add_match(parser, "all dead jobs of a search, such as 'type:mail*'", has_canary=name == "retry")
        parser.set_defaults(verb=name)
        add_caution(parser)


def _add_schedule_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue", help="the queue its jobs wait in")
    parser.add_argument("--max-attempts", type=int, help="the most attempts of each job")
    overlaps = ("allow", "skip", "queue", "cancel_previous")
    parser.add_argument("--overlap", choices=overlaps, help="what to do if the previous job still runs")
    parser.add_argument("--catch-up", choices=("skip", "latest", "all"), help="what to do about missed times")


def _add_schedule_changes(schedules: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    update = add_command(schedules, "update", "schedules:update", "change a schedule; what is not given stays", shared)
    update.add_argument("name", help="its name or id")
    update.add_argument("--cron", help="its cron expression, or @every 5m")
    update.add_argument("--tz", help="the zone of its cron expression")
    update.add_argument("--type", help="the task to run")
    update.add_argument("--payload", metavar="JSON", help="the payload of its jobs: JSON, @file or -")
    _add_schedule_options(update)
    update.add_argument("--dry-run", action="store_true", help="say what would be changed, and change nothing")
    backfill = add_command(
        schedules, "backfill", "schedules:backfill", "create the jobs of missed fire times in a past period", shared
    )
    backfill.add_argument("name", help="its name or id")
    backfill.add_argument("--from", dest="start", required=True, metavar="TIME", help="the first moment, in RFC 3339")
    backfill.add_argument("--to", dest="end", required=True, metavar="TIME", help="the last moment, in RFC 3339")
    add_caution(backfill)


def _add_schedules(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    schedules = add_group(commands, "schedules", "recurring jobs")
    add_command(schedules, "list", "schedules:list_schedules", "list schedules", shared)
    create = add_command(schedules, "create", "schedules:create", "create a schedule", shared)
    create.add_argument("name", help="its name")
    create.add_argument("--type", required=True, help="the task to run")
    create.add_argument("--cron", required=True, help="a cron expression, or @every 5m")
    create.add_argument("--tz", default="UTC", help="the zone of --cron")
    create.add_argument("--payload", default="null", help="JSON, @file, or - for standard input")
    _add_schedule_options(create)
    create.add_argument("--dry-run", action="store_true", help="show the next runs only")
    _add_schedule_changes(schedules, shared)
    for name, description in (
        ("pause", "stop a schedule"),
        ("resume", "resume a schedule"),
        ("skip", "skip the next fire time of a schedule"),
        ("run-now", "run a schedule once, now"),
        ("delete", "delete a schedule; its jobs stay"),
    ):
        parser = add_command(schedules, name, "schedules:act", description, shared)
        parser.add_argument("name", help="its name or id")
        parser.set_defaults(verb=name)
        add_caution(parser)
    upcoming = add_command(schedules, "next", "schedules:upcoming", "show the next runs of a schedule", shared)
    upcoming.add_argument("name", help="its name or id")
    upcoming.add_argument("-n", type=count_of, default=10, help="how many")
    preview = add_command(schedules, "preview", "schedules:preview", "show when an expression would run", shared)
    preview.add_argument("expression", help="a cron expression")
    preview.add_argument("--tz", default="UTC", help="its zone")
    preview.add_argument("-n", type=count_of, default=10, help="how many")

"""The tree of commands: names, flags and help. The code of a command is in `commands/`, imported when it runs."""

from __future__ import annotations

import argparse
from typing import Final

from rota import __version__
from rota.cli.output import FORMATS
from rota.cli.parser import Parser
from rota.core.access import ROLES
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
        parser = _command(commands, name, "roles:run", description, _role_flags(name))
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
    parser.add_argument("--unique-for", metavar="TIME", help="make no job if an equal one was made within this time")
    parser.add_argument(
        "--unique-by", action="append", metavar="NAME", help="an argument that makes jobs equal; repeatable"
    )
    parser.add_argument("--unique-key", metavar="TEXT", help="a text that makes jobs equal, instead of arguments")
    parser.add_argument(
        "--unique-state", action="append", metavar="STATE", help="a state in which an earlier job counts; repeatable"
    )
    parser.add_argument(
        "--debounce", metavar="TIME", help="start when no other came for so long, with the last payload"
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
    parser.add_argument("--dry-run", action="store_true", help="show what would be submitted")
    status = _command(commands, "status", "jobs:status", "health and counts of the deployment, or one job", shared)
    status.add_argument("id", nargs="?", help="a job")
    status.add_argument(
        "--watch",
        nargs="?",
        const="2s",
        metavar="INTERVAL",
        help="show it again and again, every 2s, until interrupted",
    )
    status.add_argument(
        "--times", type=_count, metavar="N", help="with --watch: how often; without it, until interrupted"
    )


def _add_jobs(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    jobs = _group(commands, "jobs", "look at jobs and act on them")
    listing = _command(jobs, "list", "jobs:list_jobs", "list jobs, newest first", shared)
    listing.add_argument("query", nargs="?", metavar="QUERY", help="a search, such as 'status:dead type:mail* -tag:x'")
    for name in ("status", "type", "queue", "tag"):
        listing.add_argument(f"--{name}", help=f"only this {name}")
    listing.add_argument("--limit", type=_count, default=50, help="how many at most")
    for name, run, description in (
        ("get", "jobs:get", "show a job"),
        ("explain", "jobs:explain", "explain why a job is in its state"),
        ("attempts", "jobs:attempts", "show a job's attempts"),
        ("steps", "jobs:steps", "show a job's guarded steps and waits"),
    ):
        _command(jobs, name, run, description, shared).add_argument("id", help="the job")
    logs = _command(jobs, "logs", "logs:logs", "show what a job's handler logged", shared)
    logs.add_argument("id", help="the job")
    logs.add_argument("--attempt", type=_count, metavar="N", help="of this attempt, from 1; unset, the last one")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the job has ended")
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
        parser.add_argument("ids", nargs="*", metavar="ID", help="the jobs")
        _add_match(parser, "all jobs of a search, such as 'status:dead type:mail*'", has_canary=name != "cancel")
        parser.set_defaults(verb=name)
        if name == "retry":
            parser.add_argument(
                "--edit", action="store_true", help="change one finished job in $EDITOR first: a new job"
            )
            _add_edits(parser, "retry one finished job as a new job with")
        _add_caution(parser)
    for name, run, description in (
        ("update", "jobs:update", "change a job that waits"),
        ("duplicate", "jobs:duplicate", "submit a new job with the fields of one, and changes"),
    ):
        parser = _command(jobs, name, run, description, shared)
        parser.add_argument("id", help="the job")
        _add_edits(parser, "give it")
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")


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
    parser.add_argument("--rate", type=float, metavar="N", help="with --match: at most so many jobs a second")
    if has_canary:
        parser.add_argument(
            "--canary", type=_count, metavar="N", help="with --match: so many first; the rest only if they succeed"
        )


def _add_operations(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    operations = _group(commands, "ops", "operations: actions on all jobs of a search")
    listing = _command(operations, "list", "operations:list_operations", "list operations, newest first", shared)
    listing.add_argument("--limit", type=_count, default=50, help="how many at most")
    for name, description in (
        ("get", "show an operation and how far it is"),
        ("cancel", "cancel an operation; what it has done stays done"),
    ):
        parser = _command(operations, name, f"operations:{name}", description, shared)
        parser.add_argument("id", help="the operation")


def _add_workflows(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    workflows = _group(commands, "workflows", "workflows: graphs of jobs")
    submit = _command(workflows, "submit", "workflows:submit", "submit a graph of jobs, all of them or none", shared)
    submit.add_argument("graph", help="JSON with name and nodes, @file, or - for standard input")
    listing = _command(workflows, "list", "workflows:list_workflows", "list workflows, newest first", shared)
    listing.add_argument("--limit", type=_count, default=50, help="how many at most")
    get = _command(workflows, "get", "workflows:get", "show a workflow, its nodes and how far it is", shared)
    graph = _command(workflows, "graph", "workflows:graph", "draw the graph of a workflow", shared)
    graph.add_argument("--mermaid", action="store_true", help="as a Mermaid diagram")
    cancel = _command(workflows, "cancel", "workflows:cancel", "cancel all jobs of a workflow", shared)
    retry = _command(workflows, "retry", "workflows:retry", "run failed nodes again, and all nodes after them", shared)
    skip = _command(workflows, "skip", "workflows:skip", "skip a node; those after it go on", shared)
    for parser in (get, graph, cancel, retry, skip):
        parser.add_argument("id", help="the workflow")
    retry.add_argument("--node", help="run again from this node instead of from those that failed")
    skip.add_argument("node", help="the node")
    for parser in (cancel, retry, skip):
        _add_caution(parser)


def _add_events(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    events = _group(commands, "events", "events that jobs wait for")
    emit = _command(events, "emit", "events:emit", "emit an event; the first emission of a name counts", shared)
    emit.add_argument("name", help="the event, such as paid:7")
    emit.add_argument("--payload", default="null", help="JSON, @file, or - for standard input")
    emit.add_argument("--keep", metavar="DURATION", help="how long it answers waits; 30 days if not given")
    get = _command(events, "get", "events:get", "show an event that was emitted", shared)
    get.add_argument("name", help="the event")


def _add_caution(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="show what would be done")


def _add_dead_letters(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    letters = _group(commands, "dlq", "dead letters: jobs in state dead")
    listing = _command(letters, "list", "dead_letters:list_letters", "list dead jobs", shared)
    listing.add_argument("--group", action="store_true", help="by cause")
    listing.add_argument("--limit", type=_count, default=50, help="how many at most")
    _command(letters, "show", "jobs:get", "show a dead job", shared).add_argument("id", help="the job")
    note = _command(letters, "note", "dead_letters:note", "set or remove the note on a cause of dead jobs", shared)
    note.add_argument("cause", help="its fingerprint; for jobs that died without an error, their type")
    note.add_argument("text", nargs="?", help="the note")
    note.add_argument("--remove", action="store_true", help="remove the note")
    for name, description in (("retry", "run dead jobs again"), ("discard", "delete dead jobs for good")):
        parser = _command(letters, name, "dead_letters:act", description, shared)
        parser.add_argument("ids", nargs="*", metavar="ID", help="the jobs")
        parser.add_argument("--all", action="store_true", help="all of them")
        _add_match(parser, "all dead jobs of a search, such as 'type:mail*'", has_canary=name == "retry")
        parser.set_defaults(verb=name)
        _add_caution(parser)


def _add_schedule_changes(schedules: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    update = _command(schedules, "update", "schedules:update", "change a schedule; what is not given stays", shared)
    update.add_argument("name", help="its name or id")
    update.add_argument("--cron", help="its cron expression, or @every 5m")
    update.add_argument("--tz", help="the zone of its cron expression")
    update.add_argument("--type", help="the task to run")
    update.add_argument("--payload", metavar="JSON", help="the payload of its jobs: JSON, @file or -")
    update.add_argument("--queue", help="the queue its jobs wait in")
    update.add_argument("--max-attempts", type=int, help="the most attempts of each job")
    update.add_argument(
        "--overlap",
        choices=("allow", "skip", "queue", "cancel_previous"),
        help="what to do if the previous job still runs",
    )
    update.add_argument("--catch-up", choices=("skip", "latest", "all"), help="what to do about missed times")
    update.add_argument("--dry-run", action="store_true", help="say what would be changed, and change nothing")
    backfill = _command(
        schedules, "backfill", "schedules:backfill", "create the jobs of missed fire times in a past period", shared
    )
    backfill.add_argument("name", help="its name or id")
    backfill.add_argument("--from", dest="start", required=True, metavar="TIME", help="the first moment, in RFC 3339")
    backfill.add_argument("--to", dest="end", required=True, metavar="TIME", help="the last moment, in RFC 3339")
    _add_caution(backfill)


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
    _add_schedule_changes(schedules, shared)
    for name, description in (
        ("pause", "stop a schedule"),
        ("resume", "resume a schedule"),
        ("skip", "skip the next fire time of a schedule"),
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
        ("holders", "list the jobs that run under a limit, at most ten"),
        ("set", "set a limit; what is not named stays as it is"),
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
            command.add_argument("--weight", type=int, help="a key's share of the starts while others wait as well")
            command.add_argument("--order", choices=("strict",), help="strict: in the order of submission, one by one")
            command.add_argument(
                "--on-full",
                choices=("wait", "drop", "cancel_oldest", "cancel_newest", "replace"),
                help="what becomes of a new job whose key has as many running and waiting ones as may run",
            )
        if action == "close":
            command.add_argument("--until", help="the time at which it opens, in RFC 3339; else it stays closed")
            command.add_argument("--reason", default="", help="the reason, shown by explain")


def _add_types(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    types = _group(commands, "types", "task types: failure rates, times, and what their payloads look like")
    listing = _command(types, "list", "types:list_types", "list task types", shared)
    one = _command(types, "get", "types:get", "show a task type, with the JSON Schema of its payloads", shared)
    one.add_argument("name", help="the task type")
    for parser in (listing, one):
        parser.add_argument("--since", default="24h", metavar="DURATION", help="how far back to count, up to 7d")


def _add_workers(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    workers = _group(commands, "workers", "workers: look at them, and tell them what to do")
    listing = _command(workers, "list", "workers:list_workers", "list workers", shared)
    listing.add_argument("--all", action="store_true", help="also those that send no heartbeat any more")
    for name, run, description in (
        ("get", "workers:get", "show a worker"),
        ("quiet", "workers:order", "tell a worker to claim no more jobs; those that run go on"),
        ("resume", "workers:order", "tell a quiet worker to claim jobs again"),
        ("stop", "workers:order", "tell a worker to finish its jobs and end its process"),
        ("stacks", "workers:stacks", "show where the threads of a worker are"),
        ("forget", "workers:forget", "forget a worker that sends no heartbeat any more"),
    ):
        parser = _command(workers, name, run, description, shared)
        parser.add_argument("name", help="the worker, by name or boot id")
        parser.set_defaults(verb=name)
        if name == "stop":
            _add_caution(parser)
        if name == "stacks":
            parser.add_argument("--wait", default="20s", metavar="DURATION", help="how long to wait for its answer")


def _add_ledger(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    ledger = _group(commands, "ledger", "the audit log of what operators did")
    entries = _command(ledger, "list", "ledger:list_entries", "list what operators did, newest first", shared)
    entries.add_argument("--limit", type=_count, default=50, help="how many at most")
    entries.add_argument("-f", "--follow", action="store_true", help="oldest first, and go on until interrupted")
    entries.add_argument(
        "--times", type=_count, metavar="N", help="with -f: how often to look; without it, until interrupted"
    )
    _command(commands, "openapi", "ledger:openapi", "print the OpenAPI document of the server", shared)
    verify = _command(
        ledger, "verify", "database:verify", "verify its hash chain, and name the first wrong entry", shared
    )
    verify.add_argument("--store", "--db", dest="store", help=OPTIONS["store"].help)


def _add_breakers(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    breakers = _group(commands, "breakers", "circuit breakers: whether jobs wait for a dependency that fails")
    _command(breakers, "list", "breakers:list_breakers", "list circuit breakers", shared)
    for action, does in (
        ("get", "show a breaker and how many jobs wait for it"),
        ("open", "start no jobs of a breaker; running ones continue"),
        ("close", "close a breaker and keep it closed, whatever fails"),
        ("reset", "close a breaker and let it open by itself again"),
    ):
        command = _command(breakers, action, f"breakers:{action}", does, shared)
        command.add_argument("name", help="the breaker")
        if action == "open":
            command.add_argument("--until", help="the time at which probes begin, in RFC 3339; else it stays open")
            command.add_argument("--for", dest="open_for", help="how long it stays open, such as 10m")
        if action in {"open", "close"}:
            command.add_argument("--reason", default="", help="the reason, shown by explain")


def _add_rest(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    _add_types(commands, shared)
    _add_workers(commands, shared)
    queues = _group(commands, "queues", "queues: pause, resume, limit, purge")
    _command(queues, "list", "queues:list_queues", "list queues", shared)
    pause = _command(queues, "pause", "queues:pause", "pause a queue: its jobs are not claimed", shared)
    pause.add_argument("name", help="the queue; a new name may be paused before its first job")
    pause.add_argument("--reason", default="", help="the reason, shown by explain and status")
    limit = _command(queues, "set-limit", "queues:limit", "set how many jobs of a queue may wait and run", shared)
    limit.add_argument("name", help="the queue")
    limit.add_argument(
        "--max-depth", type=int, help="the most waiting jobs; without any option, this bound of the queue is removed"
    )
    limit.add_argument("--max-running", type=int, help="how many jobs may run at once; remove it with limits delete")
    limit.add_argument("--rate-limit", help="how often jobs may start, such as 10/s or 100/s, 1000/h")
    purge = _command(queues, "purge", "queues:purge", "cancel all jobs of a queue that wait", shared)
    purge.add_argument("name", help="the queue")
    purge.add_argument("--confirm", metavar="NAME", help="the queue's name again; without it, it is asked for")
    purge.add_argument("--dry-run", action="store_true", help="say how many jobs there are, and do nothing")
    _command(queues, "resume", "queues:resume", "resume a queue", shared).add_argument("name", help="the queue")
    _add_limits(commands, shared)
    _add_breakers(commands, shared)
    cluster = _group(commands, "cluster", "leader, members, locks and shared configuration")
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
    _command(cluster, "locks", "cluster:locks", "list the named locks that are held", shared)
    unlock = _command(cluster, "unlock", "cluster:unlock", "release a named lock that another process may hold", shared)
    unlock.add_argument("name", help="the lock")
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
    _add_grants(store, shared)
    _add_tokens(commands, shared)
    _add_namespaces(commands, shared)
    _add_users(commands, shared)
    _add_webhooks(commands, shared)
    _add_ledger(commands, shared)
    stats = _command(commands, "stats", "stats:show", "throughput and percentiles of the last hour", shared)
    stats.add_argument("--since", default="1h", metavar="DURATION", help="since when, such as 30m or 7d; 1h")
    stats.add_argument("--by", choices=("queue", "type"), help="one line for each queue or type")
    doctor = _command(commands, "doctor", "doctor:run", "look for problems of the deployment and of this host", shared)
    doctor.add_argument("--store", "--db", dest="store", help="also check the schema and the files of this store")
    _add_bench(commands, shared)
    _command(commands, "version", "config:version", "show the version", shared)


def _add_namespaces(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    namespaces = _group(commands, "namespaces", "namespaces: create, list, set limits, delete")
    create = _command(namespaces, "create", "namespaces:create", "create a namespace", shared)
    limits = _command(
        namespaces,
        "set-limits",
        "namespaces:set_limits",
        "replace all limits of a namespace, or remove them",
        shared,
    )
    for parser in (create, limits):
        parser.add_argument("name", help="its name")
        parser.add_argument("--jobs-waiting", type=_count, metavar="N", help="the most jobs that wait, in all queues")
        parser.add_argument("--requests-per-second", type=_count, metavar="N", help="the most requests a second")
        parser.add_argument(
            "--bytes-in-flight", type=_count, metavar="N", help="the most bytes of requests that are not answered yet"
        )
    _command(namespaces, "list", "namespaces:list_namespaces", "list namespaces and their limits", shared)
    delete = _command(
        namespaces,
        "delete",
        "namespaces:delete",
        "delete a namespace with all that is in it",
        shared,
    )
    delete.add_argument("name", help="its name")
    delete.add_argument("--confirm", metavar="NAME", help="its name again; without it, the command asks for it")


def _add_grants(store: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    grants = _command(
        store, "grants", "database:grants", "print SQL for database roles with the least privileges", shared
    )
    grants.add_argument("--store", "--db", dest="store", help=OPTIONS["store"].help)
    for name, use in (("migrate", "owns and migrates the tables"), ("run", "runs Rota"), ("read", "reads for reports")):
        grants.add_argument(
            f"--{name}-role", metavar="ROLE", default=f"rota_{name}", help=f"the role that {use}; rota_{name}"
        )
    grants.add_argument(
        "--only",
        choices=("roles", "tables"),
        help="the roles, before the first migration; or the rights to tables, after",
    )


def _add_tokens(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    tokens = _group(commands, "token", "API tokens: create, rotate, revoke")
    create = _command(tokens, "create", "tokens:create", "create a token and print its secret, this once", shared)
    create.add_argument("name", help="its name, which the ledger shows")
    create.add_argument("--role", choices=tuple(ROLES), help="a set of actions")
    create.add_argument("--actions", metavar="LIST", help="single actions, such as jobs.submit,jobs.read")
    create.add_argument("--queues", metavar="LIST", help="only these queues, such as mail,report-*")
    create.add_argument("--expires", metavar="DURATION", help="how long it is valid, such as 90d")
    create.add_argument("--requests-per-second", type=_count, metavar="N", help="the most requests a second")
    create.add_argument("--streams-per-second", type=_count, metavar="N", help="the most new event streams a second")
    create.add_argument(
        "--bytes-in-flight", type=_count, metavar="N", help="the most bytes of requests that are not answered yet"
    )
    _command(tokens, "list", "tokens:list_tokens", "list tokens, without their secrets", shared)
    revoke = _command(tokens, "revoke", "tokens:revoke", "revoke a token for good", shared)
    revoke.add_argument("token_name", metavar="NAME", help="its name or id")
    _add_caution(revoke)
    rotate = _command(tokens, "rotate", "tokens:rotate", "replace a token and print the new secret, this once", shared)
    rotate.add_argument("token_name", metavar="NAME", help="its name or id")
    rotate.add_argument("--overlap", metavar="DURATION", help="how long the old secret stays valid; 0")


def _add_users(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    users = _group(commands, "users", "users of the dashboard: add, list, remove, change passwords")
    add = _command(users, "add", "users:add", "add a user; the password is asked for, or read from a pipe", shared)
    add.add_argument("name", help="the user's name, which the ledger shows")
    add.add_argument("--role", choices=tuple(ROLES), help="a set of actions")
    add.add_argument("--actions", metavar="LIST", help="single actions, such as jobs.submit,jobs.read")
    add.add_argument("--queues", metavar="LIST", help="only these queues, such as mail,report-*")
    add.add_argument("--expires", metavar="DURATION", help="how long the user may log in, such as 90d")
    add.add_argument("--no-password", action="store_true", help="log in through a proxy only")
    _command(users, "list", "users:list_users", "list users", shared)
    remove = _command(users, "remove", "users:remove", "remove a user; the user's sessions end", shared)
    remove.add_argument("user", metavar="NAME", help="the user's name")
    _add_caution(remove)
    passwd = _command(users, "passwd", "users:passwd", "change a user's password; the user's sessions end", shared)
    passwd.add_argument("user", metavar="NAME", help="the user's name")


def _add_webhooks(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    webhooks = _group(commands, "webhooks", "webhooks: tell other programs of events")
    add = _command(webhooks, "add", "webhooks:add", "create a webhook and print its secret, this once", shared)
    add.add_argument("name", help="its name")
    add.add_argument("url", help="the address that is told")
    add.add_argument("--events", required=True, metavar="LIST", help="such as job.dead,queue.paused")
    add.add_argument("--queues", metavar="LIST", help="only of jobs of these queues")
    _command(webhooks, "list", "webhooks:list_webhooks", "list webhooks, without their secrets", shared)
    for name, description in (
        ("get", "show a webhook"),
        ("test", "send a test message"),
        ("deliveries", "list messages: delivered, waiting, failed"),
        ("rotate", "give it a new secret and print it, this once"),
        ("enable", "enable a webhook whose receiver answered 410"),
        ("remove", "remove a webhook for good"),
    ):
        parser = _command(webhooks, name, f"webhooks:{name}", description, shared)
        parser.add_argument("webhook", metavar="NAME", help="its name or id")
        if name == "deliveries":
            parser.add_argument("--limit", type=int, default=100, metavar="N", help="at most so many; 100")
        elif name == "rotate":
            parser.add_argument("--overlap", metavar="DURATION", help="how long the old secret signs as well; 24h")
        elif name == "remove":
            _add_caution(parser)


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

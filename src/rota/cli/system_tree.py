"""The tree of commands, second part: queues, limits, workers, the cluster, the store, and access."""

from __future__ import annotations

import argparse

from rota.cli.parser import Parser, add_caution, add_command, add_group, count_of
from rota.core.access import ROLES
from rota.settings import OPTIONS


def _add_limits(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    limits = add_group(commands, "limits", "limits: how many jobs run at once, and how often they start")
    add_command(limits, "list", "limits:list_limits", "list limits", shared)
    for action, does in (
        ("get", "show a limit with what runs and waits under it"),
        ("holders", "list the jobs that run under a limit, at most ten"),
        ("set", "set a limit; what is not named stays as it is"),
        ("delete", "delete a limit"),
        ("close", "start no jobs under a limit; running ones continue"),
        ("open", "open a closed limit"),
    ):
        command = add_command(limits, action, f"limits:{action}", does, shared)
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
                help="the policy for a new job whose key has as many running and waiting ones as may run",
            )
        if action == "close":
            command.add_argument("--until", help="the time at which it opens, in RFC 3339; else it stays closed")
            command.add_argument("--reason", default="", help="the reason, shown by explain")


def _add_types(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    types = add_group(commands, "types", "task types: failure rates, times, and what their payloads look like")
    listing = add_command(types, "list", "types:list_types", "list task types", shared)
    one = add_command(types, "get", "types:get", "show a task type, with the JSON Schema of its payloads", shared)
    one.add_argument("name", help="the task type")
    for parser in (listing, one):
        parser.add_argument("--since", default="24h", metavar="DURATION", help="how far back to count, up to 7d")


def _add_workers(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    workers = add_group(commands, "workers", "workers: list, show, send orders")
    listing = add_command(workers, "list", "workers:list_workers", "list workers", shared)
    listing.add_argument("--all", action="store_true", help="also stopped ones")
    for name, run, description in (
        ("get", "workers:get", "show a worker"),
        ("quiet", "workers:order", "order a worker to claim no more jobs; running ones continue"),
        ("resume", "workers:order", "order a quiet worker to claim jobs again"),
        ("stop", "workers:order", "order a worker to finish its jobs and end its process"),
        ("stacks", "workers:stacks", "show the stacks of a worker's threads"),
        ("forget", "workers:forget", "delete the record of a worker that has stopped"),
    ):
        parser = add_command(workers, name, run, description, shared)
        parser.add_argument("name", help="the worker, by name or boot id")
        parser.set_defaults(verb=name)
        if name == "stop":
            add_caution(parser)
        if name == "stacks":
            parser.add_argument("--wait", default="20s", metavar="DURATION", help="how long to wait for its answer")


def _add_ledger(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    ledger = add_group(commands, "ledger", "the audit log of what operators did")
    entries = add_command(ledger, "list", "ledger:list_entries", "list what operators did, newest first", shared)
    entries.add_argument("--limit", type=count_of, default=50, help="how many at most")
    entries.add_argument("-f", "--follow", action="store_true", help="oldest first, and go on until interrupted")
    entries.add_argument(
        "--times", type=count_of, metavar="N", help="with -f: how often to poll; without it, until interrupted"
    )
    add_command(commands, "openapi", "ledger:openapi", "print the OpenAPI document of the server", shared)
    verify = add_command(
        ledger, "verify", "database:verify", "verify its hash chain, and name the first wrong entry", shared
    )
    verify.add_argument("--store", "--db", dest="store", help=OPTIONS["store"].help)


def _add_breakers(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    breakers = add_group(commands, "breakers", "circuit breakers: whether jobs wait for a dependency that fails")
    add_command(breakers, "list", "breakers:list_breakers", "list circuit breakers", shared)
    for action, does in (
        ("get", "show a breaker and how many jobs wait for it"),
        ("open", "start no jobs of a breaker; running ones continue"),
        ("close", "close a breaker and keep it closed, whatever fails"),
        ("reset", "close a breaker and let it open by itself again"),
    ):
        command = add_command(breakers, action, f"breakers:{action}", does, shared)
        command.add_argument("name", help="the breaker")
        if action == "open":
            command.add_argument("--until", help="the time at which probes begin, in RFC 3339; else it stays open")
            command.add_argument("--for", dest="open_for", help="how long it stays open, such as 10m")
        if action in {"open", "close"}:
            command.add_argument("--reason", default="", help="the reason, shown by explain")


def _add_cluster(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    cluster = add_group(commands, "cluster", "leader, members, locks and shared configuration")
    add_command(cluster, "show", "cluster:show", "show the leader and the shared configuration", shared)
    add_command(cluster, "members", "cluster:members", "list all live processes", shared)
    configure = add_command(
        cluster,
        "set",
        "cluster:configure",
        "set a value of the shared configuration, for all running processes",
        shared,
    )
    configure.add_argument("key", help="such as log_level")
    configure.add_argument("value", help="such as debug")
    forget = add_command(
        cluster,
        "unset",
        "cluster:forget",
        "remove a value of the shared configuration; each process uses its own settings again",
        shared,
    )
    forget.add_argument("key", help="such as log_level")
    add_command(cluster, "locks", "cluster:locks", "list the named locks that are held", shared)
    unlock = add_command(
        cluster, "unlock", "cluster:unlock", "release a named lock that another process may hold", shared
    )
    unlock.add_argument("name", help="the lock")
    leader = add_group(commands, "leader", "the scheduler that leads")
    add_command(leader, "show", "cluster:leader", "show the current leader and former ones", shared)
    transfer = add_command(leader, "transfer", "cluster:transfer", "transfer the lead to another scheduler", shared)
    transfer.add_argument("to", nargs="?", help="the scheduler; without it any other live one")


def add_system(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    _add_types(commands, shared)
    _add_workers(commands, shared)
    queues = add_group(commands, "queues", "queues: pause, resume, limit, purge")
    add_command(queues, "list", "queues:list_queues", "list queues", shared)
    pause = add_command(queues, "pause", "queues:pause", "pause a queue: its jobs are not claimed", shared)
    pause.add_argument("name", help="the queue; a new name may be paused before its first job")
    pause.add_argument("--reason", default="", help="the reason, shown by explain and status")
    limit = add_command(queues, "set-limit", "queues:limit", "set how many jobs of a queue may wait and run", shared)
    limit.add_argument("name", help="the queue")
    limit.add_argument(
        "--max-depth", type=int, help="the most waiting jobs; without any option, this bound of the queue is removed"
    )
    limit.add_argument("--max-running", type=int, help="how many jobs may run at once; remove it with limits delete")
    limit.add_argument("--rate-limit", help="how often jobs may start, such as 10/s or 100/s, 1000/h")
    purge = add_command(queues, "purge", "queues:purge", "cancel all jobs of a queue that wait", shared)
    purge.add_argument("name", help="the queue")
    purge.add_argument("--confirm", metavar="NAME", help="the queue's name again; without it, it is asked for")
    purge.add_argument("--dry-run", action="store_true", help="say how many jobs there are, and do nothing")
    add_command(queues, "resume", "queues:resume", "resume a queue", shared).add_argument("name", help="the queue")
    _add_limits(commands, shared)
    _add_breakers(commands, shared)
    _add_cluster(commands, shared)
    config = add_group(commands, "config", "settings")
    show = add_command(config, "show", "config:show", "show every setting", shared)
    show.add_argument("--origin", action="store_true", help="show where each came from")
    store = add_group(commands, "db", "the store")
    for name, description in (
        ("migrate", "migrate the store to the schema of this release"),
        ("status", "show its migrations"),
        ("check", "check for damage, and for database settings that endanger the data"),
    ):
        parser = add_command(store, name, f"database:{name}", description, shared)
        parser.add_argument("--store", "--db", dest="store", help=OPTIONS["store"].help)
    _add_grants(store, shared)
    _add_tokens(commands, shared)
    _add_namespaces(commands, shared)
    _add_users(commands, shared)
    _add_webhooks(commands, shared)
    _add_ledger(commands, shared)
    stats = add_command(commands, "stats", "stats:show", "throughput and percentiles of the last hour", shared)
    stats.add_argument("--since", default="1h", metavar="DURATION", help="since when, such as 30m or 7d; 1h")
    stats.add_argument("--by", choices=("queue", "type"), help="one line for each queue or type")
    doctor = add_command(
        commands, "doctor", "doctor:run", "check for problems of the deployment and of this host", shared
    )
    doctor.add_argument("--store", "--db", dest="store", help="also check the schema and the files of this store")
    _add_bench(commands, shared)
    add_command(commands, "version", "config:version", "show the version", shared)


def _add_namespaces(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    namespaces = add_group(commands, "namespaces", "namespaces: create, list, set limits, delete")
    create = add_command(namespaces, "create", "namespaces:create", "create a namespace", shared)
    limits = add_command(
        namespaces,
        "set-limits",
        "namespaces:set_limits",
        "replace all limits of a namespace, or remove them",
        shared,
    )
    for parser in (create, limits):
        parser.add_argument("name", help="its name")
        parser.add_argument("--jobs-waiting", type=count_of, metavar="N", help="the most jobs that wait, in all queues")
        parser.add_argument("--requests-per-second", type=count_of, metavar="N", help="the most requests a second")
        parser.add_argument(
            "--bytes-in-flight", type=count_of, metavar="N", help="the most bytes of requests that are not answered yet"
        )
    add_command(namespaces, "list", "namespaces:list_namespaces", "list namespaces and their limits", shared)
    delete = add_command(
        namespaces,
        "delete",
        "namespaces:delete",
        "delete a namespace with all that is in it",
        shared,
    )
    delete.add_argument("name", help="its name")
    delete.add_argument("--confirm", metavar="NAME", help="its name again; without it, the command asks for it")


def _add_grants(store: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    grants = add_command(
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
    tokens = add_group(commands, "token", "API tokens: create, rotate, revoke")
    create = add_command(tokens, "create", "tokens:create", "create a token and print its secret, this once", shared)
    create.add_argument("name", help="its name, which the ledger shows")
    create.add_argument("--role", choices=tuple(ROLES), help="a set of actions")
    create.add_argument("--actions", metavar="LIST", help="single actions, such as jobs.submit,jobs.read")
    create.add_argument("--queues", metavar="LIST", help="only these queues, such as mail,report-*")
    create.add_argument("--expires", metavar="DURATION", help="how long it is valid, such as 90d")
    create.add_argument("--requests-per-second", type=count_of, metavar="N", help="the most requests a second")
    create.add_argument("--streams-per-second", type=count_of, metavar="N", help="the most new event streams a second")
    create.add_argument(
        "--bytes-in-flight", type=count_of, metavar="N", help="the most bytes of requests that are not answered yet"
    )
    add_command(tokens, "list", "tokens:list_tokens", "list tokens, without their secrets", shared)
    revoke = add_command(tokens, "revoke", "tokens:revoke", "revoke a token for good", shared)
    revoke.add_argument("token_name", metavar="NAME", help="its name or id")
    add_caution(revoke)
    rotate = add_command(
        tokens, "rotate", "tokens:rotate", "replace a token and print the new secret, this once", shared
    )
    rotate.add_argument("token_name", metavar="NAME", help="its name or id")
    rotate.add_argument("--overlap", metavar="DURATION", help="how long the old secret stays valid; 0")


def _add_users(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    users = add_group(commands, "users", "users of the dashboard: add, list, remove, change passwords")
    add = add_command(users, "add", "users:add", "add a user; the password is asked for, or read from a pipe", shared)
    add.add_argument("name", help="the user's name, which the ledger shows")
    add.add_argument("--role", choices=tuple(ROLES), help="a set of actions")
    add.add_argument("--actions", metavar="LIST", help="single actions, such as jobs.submit,jobs.read")
    add.add_argument("--queues", metavar="LIST", help="only these queues, such as mail,report-*")
    add.add_argument("--expires", metavar="DURATION", help="how long the user may log in, such as 90d")
    add.add_argument("--no-password", action="store_true", help="log in through a proxy only")
    add_command(users, "list", "users:list_users", "list users", shared)
    remove = add_command(users, "remove", "users:remove", "remove a user; the user's sessions end", shared)
    remove.add_argument("user", metavar="NAME", help="the user's name")
    add_caution(remove)
    passwd = add_command(users, "passwd", "users:passwd", "change a user's password; the user's sessions end", shared)
    passwd.add_argument("user", metavar="NAME", help="the user's name")


def _add_webhooks(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    webhooks = add_group(commands, "webhooks", "webhooks: notify other programs of events")
    add = add_command(webhooks, "add", "webhooks:add", "create a webhook and print its secret, this once", shared)
    add.add_argument("name", help="its name")
    add.add_argument("url", help="the address that is notified")
    add.add_argument("--events", required=True, metavar="LIST", help="such as job.dead,queue.paused")
    add.add_argument("--queues", metavar="LIST", help="only of jobs of these queues")
    add_command(webhooks, "list", "webhooks:list_webhooks", "list webhooks, without their secrets", shared)
    for name, description in (
        ("get", "show a webhook"),
        ("test", "send a test message"),
        ("deliveries", "list messages: delivered, waiting, failed"),
        ("rotate", "give it a new secret and print it, this once"),
        ("enable", "enable a webhook whose receiver answered 410"),
        ("remove", "remove a webhook for good"),
    ):
        parser = add_command(webhooks, name, f"webhooks:{name}", description, shared)
        parser.add_argument("webhook", metavar="NAME", help="its name or id")
        if name == "deliveries":
            parser.add_argument("--limit", type=int, default=100, metavar="N", help="at most so many; 100")
        elif name == "rotate":
            parser.add_argument("--overlap", metavar="DURATION", help="how long the old secret signs as well; 24h")
        elif name == "remove":
            add_caution(parser)


def _add_bench(commands: argparse._SubParsersAction[Parser], shared: Parser) -> None:
    parser = add_command(
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

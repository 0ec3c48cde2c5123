"""Every command and every flag of the command line, each run against a real server and checked by its effect.

`CASES` is walked in order in one test. A second test compares it with the tree of commands: a command or a flag that is
added without a case here fails. The flags of the roles are settings and are tested with them.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from journeys.system import System, open_system
from rota.cli.exits import Exit
from rota.cli.main import ROLES, main
from rota.cli.tree import build, global_flags

TASKS = """
import logging

from rota import GiveUp, Rota

app = Rota()


@app.task(name="fail")
def fail() -> None:
    raise GiveUp("bad card")


@app.task(name="add")
def add(a: int = 1, b: int = 2) -> int:
    logging.info("added %d and %d", a, b)
    return a + b
"""


@dataclass
class Said:
    """The output of a command, the state of the server afterwards, and the ids that were noted."""

    out: str
    err: str
    system: System
    names: dict[str, str]

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON
        return json.loads(self.out)

    def job(self, name: str) -> dict[str, Any]:
        return self.system.job(self.names[name])


Check = Callable[[Said], object]


def prints(*words: str) -> Check:
    """Expect words on standard output or standard error."""

    def check(said: Said) -> None:
        for word in words:
            assert word.format(**said.names) in said.out + said.err

    return check


def says_once(word: str) -> Check:
    def check(said: Said) -> None:
        assert said.err.count(word) == 1, said.err

    return check


def nothing(said: Said) -> None:
    assert said.out == ""


def twice(said: Said) -> None:
    assert [json.loads(line)["health"] for line in said.out.split("\n") if line] == ["healthy"] * 2, said.out


def orders(**expected: bool) -> Check:
    """Expect orders for the worker w1."""

    def check(said: Said) -> None:
        stored = said.system.ask("GET", "/v1/workers/w1")["orders"]
        assert {name: stored[name] for name in expected} == expected

    return check


def one_line(said: Said) -> None:
    assert re.fullmatch(r"\S+\n", said.out), said.out
    assert said.err == ""


def notes(name: str, check: Check = lambda _: None) -> Check:
    """Keep the id that was printed under a name, for later cases."""

    def keep(said: Said) -> None:
        found = said.json if said.out.startswith("{") else said.out.strip()
        said.names[name] = found["id"] if isinstance(found, dict) else found
        check(said)

    return keep


def shows(name: str, **values: object) -> Check:
    """Expect values in what the server says of a job afterwards."""

    def check(said: Said) -> None:
        job = said.job(name)
        assert {key: job[key] for key in values} == values

    return check


def copies(name: str) -> Check:
    """Expect a new job that names the one it was made from."""

    def check(said: Said) -> None:
        assert said.json["retried_from"] == said.names[name]
        assert (said.json["payload"], said.json["queue"], said.json["tags"]) == ([1], "nowhere", ["x"])

    return check


def has_state(name: str, state: str) -> Check:
    def check(said: Said) -> None:
        said.system.until(lambda: said.job(name)["status"], lambda seen: seen == state)

    return check


def retried_one_of_two(said: Said) -> None:
    prints("'nosuch' is not an id", "1 of 2 done")(said)
    has_state("dead", "dead")(said)


def takes_lock(name: str) -> Check:
    """Take a lock for the cases that follow."""

    def check(said: Said) -> None:
        prints("no lock is held")(said)
        said.system.ask("POST", "/v1/locks:acquire", {"name": name, "holder": "ada", "hold": "1h"})

    return check


def is_csv_of(*columns: str) -> Check:
    def check(said: Said) -> None:
        rows = list(csv.reader(io.StringIO(said.out)))
        assert rows[0] == list(columns)
        assert all(len(row) == len(columns) for row in rows)

    return check


def lists(*names: str) -> Check:
    """Expect exactly these ids, one on each line."""

    def check(said: Said) -> None:
        assert sorted(said.out.split()) == sorted(said.names.get(name, name) for name in names)

    return check


def counts(number: int) -> Check:
    """Expect as many words on standard output."""

    def check(said: Said) -> None:
        assert len(said.out.split()) == number

    return check


def operation_ends(state: str) -> Check:
    """Expect the end of the operation that was noted last."""

    def check(said: Said) -> None:
        path = f"/v1/operations/{said.names['operation']}"
        said.system.until(lambda: said.system.ask("GET", path)["state"], lambda seen: seen == state)

    return check


def schedule_has(*, paused: bool) -> Check:
    def check(said: Said) -> None:
        assert bool(said.system.ask("GET", "/v1/schedules/nightly").get("paused_at")) is paused

    return check


def has_id(name: str) -> Check:
    def check(said: Said) -> None:
        assert said.json["id"] == said.names[name]

    return check


def queue_has(**values: object) -> Check:
    def check(said: Said) -> None:
        (queue,) = [one for one in said.system.ask("GET", "/v1/queues")["items"] if one["name"] == "side"]
        assert {key: queue.get(key) for key in values} == values

    return check


@dataclass(frozen=True)
class Case:
    """One command as it is typed, how it ends, and what is to be seen then."""

    typed: str
    check: Check = lambda _: None
    code: int = Exit.OK
    #: Arguments that are not split at spaces.
    more: tuple[str, ...] = field(default=())


def _is_empty_payload(said: Said) -> None:
    assert said.job("plain")["payload"] is None


GRAPH = json.dumps(
    {
        "name": "etl",
        "nodes": [
            {"name": "first", "type": "add", "delay": "1h"},
            {"name": "second", "type": "add", "delay": "1h", "after": ["first"]},
            {"name": "last", "type": "add", "after": [{"node": "second", "need": "end"}]},
        ],
    }
)
CASES = [
    # Submitting.
    Case("submit", notes("plain", _is_empty_payload)),
    Case("submit --type add --payload", notes("typed", has_state("typed", "completed")), more=('{"a": 2, "b": 3}',)),
    Case("submit --type add --wait 30s --payload", prints("submitted ", "7"), more=('{"a": 3, "b": 4}',)),
    Case("submit --type fail --max-attempts 4 -q", notes("dead", shows("dead", max_attempts=4))),
    Case("submit -q", one_line),
    Case(
        "submit --in 1h --priority 9 --queue side --tag red --timeout 7s --concurrency-key k1",
        notes("later", shows("later", priority=9, queue="side", tags=["red"], status="scheduled")),
    ),
    Case("submit --at 2099-01-01T00:00:00Z --type add --key k1", notes("far", shows("far", status="scheduled"))),
    Case("submit --at 2099-01-01T00:00:00Z --type add --key k1 -q", lists("far")),
    Case(
        "submit --type add --queue rare --debounce 1h --max-wait 2h --unique-key d1",
        notes("debounced", shows("debounced", status="scheduled")),
    ),
    Case("submit --type add --queue rare --debounce 1h --unique-key d1 -q", lists("debounced")),
    Case("submit --type add --queue rare --debounce 1h --unique-key d1", prints("debounced: no job was made")),
    Case(
        "submit --type add --queue rare --in 1h --unique-for 1h --unique-by a --unique-state scheduled --payload",
        notes("unique", shows("unique", status="scheduled")),
        more=('{"a": 1, "b": 2}',),
    ),
    Case("submit --type add --queue rare --in 1h --expires 2h --delivery at_most_once",
         notes("once", shows("once", delivery="at_most_once"))),
    Case(
        "submit --type add --max-attempts 0",
        prints("--max-attempts: 0 will not do", "rota submit --help"),
        Exit.USAGE,
    ),
    Case("submit --type add --queue rare --in 1h --throttle 1h", notes("throttled", shows("throttled", attempts=0))),
    Case(
        "submit --in 1h --queue rare --breaker stripe",
        notes("breaking", shows("breaking", concurrency_key="breaker:stripe")),
    ),
    Case("submit --type add --on-success echo --wait", prints("3")),
    Case("submit --type fail --on-failure echo --max-attempts 1 --wait 30s", prints("bad card"), Exit.JOB_FAILED),
    Case(
        "submit --type add --tz Europe/Berlin -o json --cron",
        notes("recurring", prints("Europe/Berlin")),
        more=("0 3 * * *",),
    ),
    Case("submit --type add --every 1h -q", notes("hourly")),
    Case("submit --type add --dry-run", prints("add")),
    Case("submit --dry-run --at yesterday", prints("--at: 'yesterday' will not do"), Exit.USAGE),
    Case("submit --dry-run --every 0s", prints("'0s' is no usable interval"), Exit.USAGE),
    Case("submit --dry-run --cron @daily --tz Mars/Base", prints("--tz: 'Mars/Base'"), Exit.USAGE),
    Case("submit --dry-run --delivery at_most_once --max-attempts 5", prints("starts once"), Exit.USAGE),
    Case("submit --from jobs.jsonl", prints("submitted 2 of 2 jobs")),
    Case("submit --from jobs.jsonl --dry-run", prints("would submit 2 of 2 jobs")),
    Case("submit --from jobs.jsonl --type add", prints("--type does not apply"), Exit.USAGE),
    Case("submit --tz Europe/Berlin", prints("no --cron"), Exit.USAGE),
    Case("submit --wait soon", prints("30s, 5m"), Exit.USAGE),
    Case("submit --cron x --wait", prints("never ends"), Exit.USAGE),
    Case("submit --type add --follow", prints("submitted ", "added 1 and 2", "is completed")),
    Case("submit --type add --follow --wait", prints("give one of the two"), Exit.USAGE),
    Case("submit --cron x --follow", prints("--follow: a recurring job never ends"), Exit.USAGE),
    Case("submit --from jobs.jsonl --follow", prints("--follow does not apply"), Exit.USAGE),
    Case("submit --priority 11", prints("priority"), Exit.USAGE),
    # Looking at jobs.
    Case("status", prints("queue_depth", "workers")),
    Case("status {typed}", prints("{typed}", "completed")),
    Case("status -o ids", prints("has no id"), Exit.USAGE),
    Case("jobs list --type ma*", says_once("patterns cannot be searched for"), Exit.USAGE),
    Case("jobs list --status completed --type add --limit 2 -o ids", counts(2)),
    Case("jobs list --queue side -o ids", lists("later")),
    Case("jobs list --tag red -o ids", lists("later")),
    Case("jobs list -o ids", lists("later"), more=("queue:si* -status:completed priority:>8",)),
    Case("jobs list", prints("at character 10", "did you mean 'dead'?"), Exit.USAGE, more=("type:add -status:daed",)),
    Case("jobs get", prints("an id or a name is empty"), Exit.USAGE, more=("",)),
    Case("jobs list --queue=", prints("it is empty"), Exit.USAGE),
    Case("jobs list --limit 0", prints("1 or more"), Exit.USAGE),
    Case("jobs list --limit -3", prints("--limit"), Exit.USAGE),
    Case("jobs list -o csv", is_csv_of("id", "type", "status", "queue", "attempts", "run_at", "worker", "error")),
    Case("jobs get {typed} -o json", lambda said: said.json["result"] == 5 or pytest.fail(said.out)),
    Case("jobs get {typed} -o csv", prints("id,", "{typed}")),
    Case("jobs get 0000000000000", prints("never submitted here"), Exit.NOT_FOUND),
    Case("jobs explain {later}", prints("scheduled_future")),
    Case("jobs attempts {dead}", prints("bad card")),
    Case("jobs logs {typed}", prints("added 2 and 3")),
    Case("jobs logs {typed} -f", prints("added 2 and 3", "job {typed} is completed")),
    Case("jobs logs {typed} --attempt 1 --follow", prints("added 2 and 3", "job {typed} is completed")),
    Case("jobs logs {typed} --attempt 2", prints("the job has 1 attempts"), Exit.USAGE),
    Case("jobs logs {typed} -o csv", is_csv_of("number", "at", "level", "logger", "message")),
    Case("jobs logs {later}", prints("not yet started")),
    Case("jobs logs {dead} -f", prints("is dead"), Exit.JOB_FAILED),
    Case("jobs steps {typed}", prints("no steps")),
    Case("jobs resolve {typed} card --happened --result 1", prints("card"), Exit.USAGE),
    Case("jobs resolve {typed} card --not-happened", prints("card"), Exit.USAGE),
    Case("jobs result {typed}", prints("5")),
    Case("jobs result {typed} --wait 5s", prints("5")),
    Case("jobs result {later} --wait 0.1s", prints("still scheduled"), Exit.TIMED_OUT),
    # Acting on jobs.
    Case("jobs update {later}", prints("nothing to change"), Exit.USAGE),
    Case("jobs update {later} --priority 7 --dry-run", prints("would change priority")),
    Case("jobs update {later} --priority 7 --max-attempts 9 --tag red --tag new --in 3h",
         shows("later", priority=7, max_attempts=9, tags=["red", "new"], status="scheduled")),
    Case("jobs update {later} --payload", prints("changed {later}: payload"), more=('{"a": 2, "b": 3}',)),
    Case("jobs update {later} --at 2999-01-01T00:00:00Z --queue side", prints("changed {later}: queue, run_at")),
    Case("jobs update {typed} --priority 7", prints("stays as it ran"), Exit.CONFLICT),
    Case("jobs duplicate {later} --dry-run --priority 3", prints("would make a new job")),
    Case("jobs duplicate {typed} --queue nowhere --max-attempts 2 --tag x --priority 2 --in 1h -o json --payload",
         copies("typed"), more=("[1]",)),
    Case("jobs duplicate {typed} --at 2999-01-01T00:00:00Z", counts(1)),
    Case("jobs retry {dead} --priority 9 --queue nowhere --max-attempts 2 --tag x --in 1h -o json --payload",
         copies("dead"), more=("[1]",)),
    Case("jobs retry {dead} --at 2999-01-01T00:00:00Z --dry-run", prints("would make a new job")),
    Case("jobs retry {dead} {typed} --edit", prints("give one job"), Exit.USAGE),
    Case("jobs retry {dead} --edit", prints("nothing was changed")),
    Case("jobs run-now {later} --dry-run", shows("later", status="scheduled")),
    Case("jobs run-now {later} --yes", has_state("later", "completed")),
    Case("jobs cancel {far} {hourly}", prints("standard input is not a terminal"), Exit.USAGE),
    Case("jobs cancel {typed} {far} --yes", prints("1 of 2 done, 1 refused"), Exit.CONFLICT),
    Case("jobs retry {far} --yes", has_state("far", "completed")),
    Case("jobs retry {far} --dry-run", prints("would retry 1 job")),
    Case("jobs cancel {hourly} --dry-run -q", prints("would cancel 1 job")),
    # Dead letters.
    Case("dlq list --limit 1 -o ids", counts(1)),
    Case("dlq list --group", prints("fail")),
    Case("dlq list --group -o ids", notes("cause")),
    Case("dlq list --group", prints("bad card")),
    Case("dlq note {cause}", prints("give a text, or --remove"), Exit.USAGE),
    Case("dlq note {cause} knot", prints("note on")),
    Case("dlq list --group", prints("knot")),
    Case("dlq note {cause} --remove -q", nothing),
    Case("dlq note {cause} --remove", prints("there is no note"), Exit.NOT_FOUND),
    Case("dlq note nosuch text", prints("no job is dead by the cause 'nosuch'"), Exit.NOT_FOUND),
    Case("dlq show {dead}", prints("bad card")),
    Case("dlq retry {dead} --dry-run", shows("dead", status="dead")),
    Case("dlq retry", prints("--all"), Exit.USAGE),
    Case("dlq retry --all", prints("standard input is not a terminal"), Exit.USAGE),
    Case("dlq retry --all --yes -q", has_state("dead", "dead")),
    Case("dlq retry nosuch", says_once("retry nosuch: 'nosuch' is not an id: ids are 13"), Exit.NOT_FOUND),
    Case("dlq retry nosuch {dead} --yes", retried_one_of_two, Exit.NOT_FOUND),
    Case("dlq retry {typed} {dead} --yes", prints("1 of 2 done, 1 refused"), Exit.CONFLICT),
    Case("jobs retry --rate 5 {dead} --yes", prints("--match only"), Exit.USAGE),
    Case("jobs run-now", prints("--match QUERY"), Exit.USAGE),
    Case("jobs retry --dry-run --canary 1 --rate 5 --match", prints("would retry"), more=("status:dead",)),
    Case("jobs run-now --yes --canary 1 --rate 5 --match", prints("no job matches"), more=("type:nosuch",)),
    Case("jobs cancel --yes --rate 5 --match", prints("no job matches"), more=("type:nosuch",)),
    Case("dlq retry --yes --rate 100 --canary 1 -o json --match", notes("operation", operation_ends("stopped")),
         more=("type:fail",)),
    Case("dlq discard --dry-run --rate 5 --match", prints("would delete"), more=("type:fail",)),
    Case("submit --type add --after {typed} -q", notes("follower", has_state("follower", "completed"))),
    Case("workflows submit -q", notes("workflow"), more=(GRAPH,)),
    Case("workflows list --limit 1 -o ids", lists("workflow")),
    Case("workflows get {workflow}", prints("first", "second", "AFTER", "etl: running")),
    Case("workflows graph {workflow}", prints("second [", "<- first")),
    Case("workflows graph {workflow} --mermaid", prints("flowchart TD", "n0 --> n1", "-.->|end|")),
    Case("workflows skip {workflow} first --dry-run", prints("would skip node first")),
    Case("workflows skip {workflow} first --yes", prints("1 skipped")),
    Case("workflows cancel {workflow} --dry-run", prints("would cancel all jobs")),
    Case("workflows cancel {workflow} --yes", prints("etl is cancelled")),
    Case("workflows retry {workflow} --dry-run", prints("would run the failed nodes")),
    Case("workflows retry {workflow} --node second --yes", prints("etl is running")),
    Case("ops list --limit 1 -o ids", lists("operation")),
    Case("ops get {operation}", prints("stopped", "retry")),
    Case("ops cancel {operation}", prints("has ended already"), Exit.CONFLICT),
    Case("dlq discard {dead} --dry-run", has_state("dead", "dead")),
    Case("dlq discard {dead} --yes", lambda said: said.names.pop("dead")),
    Case("dlq discard --all --yes", prints("done")),
    Case("dlq list -o ids", nothing),
    # Schedules.
    Case("schedules list -o ids", lists("recurring", "hourly")),
    Case(
        "schedules create nightly --type add --tz Europe/Berlin --queue side --max-attempts 2 --overlap skip"
        " --catch-up all -o json --payload 1 --cron",
        notes("nightly", prints("Europe/Berlin", "skip")),
        more=("0 4 * * *",),
    ),
    Case("schedules create other --type add --dry-run --cron", prints("UTC"), more=("0 4 * * *",)),
    Case("schedules pause nightly --yes", schedule_has(paused=True)),
    Case("schedules resume nightly --dry-run", schedule_has(paused=True)),
    Case("schedules resume nightly", schedule_has(paused=False)),
    Case("schedules pause nightly --dry-run", schedule_has(paused=False)),
    Case("schedules resume nightly --yes"),
    Case("schedules skip nightly --dry-run", prints("would skip")),
    Case("schedules skip nightly --yes", prints("skip nightly: done")),
    Case("schedules update nightly", prints("nothing to change"), Exit.USAGE),
    Case("schedules update nightly --tz UTC --type add --max-attempts 3 --dry-run", prints("would change zone, type")),
    Case("schedules update nightly --queue side --overlap allow --catch-up all --max-attempts 4 -o json --payload",
         lambda said: said.json["job"]["max_attempts"] == 4 or pytest.fail(said.out), more=("[1]",)),
    Case("schedules update nightly --tz Europe/Berlin --type add -o json --cron",
         lambda said: said.json["cron"] == "0 5 * * *" or pytest.fail(said.out), more=("0 5 * * *",)),
    Case("schedules backfill nightly --from 2026-01-01T00:00:00Z --to 2025-01-01T00:00:00Z", prints("to"), Exit.USAGE),
    Case("schedules backfill nightly --dry-run --from {days_ago} --to {now}", prints("would create", "nightly")),
    Case("schedules backfill nightly --from {days_ago} --to {now}", prints("not a terminal"), Exit.USAGE),
    Case("schedules backfill nightly --yes --from {days_ago} --to {now}", prints("created")),
    Case("schedules backfill nightly --yes --from {days_ago} --to {now}", prints("no fire time of this period")),
    Case("schedules run-now nightly --dry-run", prints("would run-now")),
    Case("schedules run-now nightly --yes", prints("done")),
    Case("schedules next nightly -n 3 -o ids", counts(3)),
    Case("schedules preview --tz Europe/Berlin -n 2 -o ids", counts(2), more=("0 4 * * *",)),
    Case("schedules preview nope", says_once("cron 'nope'"), Exit.USAGE),
    Case("schedules preview -n 0", prints("1 or more"), Exit.USAGE, more=("0 4 * * *",)),
    Case("schedules delete nightly --dry-run", prints("would delete")),
    Case("schedules delete nightly", prints("standard input is not a terminal"), Exit.USAGE),
    Case("schedules delete nightly --yes", prints("done")),
    Case("schedules next nightly", prints("nightly"), Exit.NOT_FOUND),
    # Events.
    Case("events emit paid:7 --payload 3141 --keep 1h", prints("paid:7: emitted")),
    Case("events emit paid:7", prints("emitted before, at")),
    Case("events emit paid:7 -o json", prints('"is_new": false')),
    Case("events get paid:7", prints("3141")),
    Case("events emit", says_once("event: a name has 1 to 200 characters, this one has 0"), Exit.USAGE, ("",)),
    Case("events get", says_once("event: a name has 1 to 200 characters, this one has 0"), Exit.USAGE, ("",)),
    Case("events get never", says_once("was not emitted"), Exit.NOT_FOUND),
    # Queues, workers, the cluster.
    Case("queues set-limit side --max-depth 5", queue_has(max_depth=5)),
    Case("queues set-limit side --max-running 6 --rate-limit 100/s", queue_has(max_running=6)),
    Case("queues pause side --reason drill", queue_has(pause_reason="drill")),
    Case("queues resume typo", says_once("queue 'typo': unknown, it has neither"), Exit.NOT_FOUND),
    Case("queues resume side", queue_has(pause_reason=None)),
    Case("queues list -o ids", prints("side")),
    Case("submit --type add --queue purged --in 1h -q", notes("purged")),
    Case("queues purge purged --dry-run", prints("would cancel 1 waiting jobs of purged")),
    Case("queues purge purged", prints("was not given a second time"), Exit.USAGE),
    Case("queues purge purged --confirm other", prints("was not given a second time"), Exit.USAGE),
    Case("queues purge purged --confirm purged", has_state("purged", "cancelled")),
    Case("limits set queue:side --max-running 5 --rate-limit 100/s", prints("max_running 5")),
    Case("limits set queue:side --max-running 6", prints("max_running 6")),
    Case("limits get queue:side", prints("100/s")),
    Case("limits set task:slow --per-key-max-running 2 --per-key-rate-limit 10/s", prints("per_key_max_running 2")),
    Case("limits set key:big --weight 3 --order strict", prints("weight 3", "order strict")),
    Case("limits set key:once --max-running 1 --on-full drop", prints("max_running 1", "on_full drop")),
    Case("limits holders key:big", prints("no job runs")),
    Case("limits delete key:big", prints("deleted key:big")),
    Case("limits list -o ids", prints("queue:side", "task:slow")),
    Case("limits close queue:side --reason drill --until 2030-01-01T00:00:00Z", prints("2030-01-01")),
    Case("limits get queue:side", prints("drill")),
    Case("limits close queue:side --until 2001-01-01T00:00:00Z", says_once("until: 2001-01-01T00:00:00+00:00 is past"),
         Exit.USAGE),
    Case("limits close queue:side", prints("closed queue:side until it is opened")),
    Case("limits open queue:side", prints("opened queue:side")),
    Case("limits delete queue:side", prints("deleted queue:side")),
    Case("breakers open stripe --reason drill --until 2030-01-01T00:00:00Z", prints("2030-01-01")),
    Case("breakers open stripe --for 10m", prints("opened stripe until 20")),
    Case("breakers open stripe --until 2001-01-01T00:00:00Z", says_once("until: 2001-01-01T00:00:00+00:00 is past"),
         Exit.USAGE),
    Case("breakers open stripe", prints("opened stripe until it is closed")),
    Case("breakers list -o ids", prints("stripe")),
    Case("breakers get stripe", prints("opened by")),
    Case("breakers close stripe --reason drill", prints("closed stripe", "rota breakers reset stripe")),
    Case("breakers reset stripe", prints("opens by itself again")),
    Case("breakers get unknown", says_once("breaker 'unknown': not known"), Exit.NOT_FOUND),
    Case("limits delete task:slow", prints("deleted task:slow")),
    Case("types list -o ids", prints("fail")),
    Case("types list --since 1h", prints("FAILED %", "100.0%")),
    Case("types list --since 8d", says_once("since"), Exit.USAGE),
    Case("types get fail --since 1h", prints("payload_schema")),
    Case("types get nothing", prints("task type 'nothing': unknown"), Exit.NOT_FOUND),
    Case("workers list -o ids", prints("w1")),
    Case("workers list", prints("w1", "fail")),
    Case("workers list --all -o ids", prints("w1")),
    Case("workers get w1", prints("threads_left_behind")),
    Case("workers get nobody", prints("worker 'nobody': unknown"), Exit.NOT_FOUND),
    Case("workers quiet w1", orders(quiet=True)),
    Case("workers resume w1", orders(quiet=False)),
    Case("workers stacks w1 --wait 60s", prints("thread ")),
    Case("workers stacks w1 --wait 0s", prints("has not answered"), Exit.TIMED_OUT),
    Case("workers stop w1", prints("standard input is not a terminal"), Exit.USAGE),
    Case("workers stop w1 --dry-run", orders(stop=False)),
    Case("workers stop w1 --dry-run --yes", orders(stop=False)),
    Case("workers forget w1", prints("it is alive"), Exit.CONFLICT),
    Case("cluster show", prints("leader")),
    Case("cluster members -o ids", prints("w1")),
    Case("cluster set log_level debug", prints("debug")),
    Case("cluster unset log_level", prints("log_level")),
    Case("leader show -o ids", prints("-")),
    Case("leader transfer", prints("is the only live scheduler"), Exit.CONFLICT),
    Case("leader transfer nobody", prints("rota scheduler"), Exit.CONFLICT),
    Case("cluster locks", takes_lock("report")),
    Case("cluster locks -o ids", lists("report")),
    Case("cluster locks", prints("report", "ada")),
    Case("cluster unlock report", prints("report")),
    Case("cluster locks", prints("no lock is held")),
    Case("cluster unlock report", says_once("'report' is not held"), Exit.NOT_FOUND),
    # The store, the settings, the version.
    Case("config show", prints("keep_completed")),
    Case("config show --origin", prints("ROTA_API_URL")),
    Case("db status --store scheduler.db", prints("0001")),
    Case("db check --store scheduler.db", prints("sound")),
    Case("db check --store typo.db", prints("holds no store"), Exit.NOT_FOUND),
    Case("ledger list --limit 2", prints("ACTION")),
    Case("ledger list -f --times 2 --limit 5", prints("cluster.unlock")),
    Case("ledger list --follow --times 1 -o json", prints('"digest"')),
    Case("openapi", lambda said: said.json["openapi"].startswith("3.1") or pytest.fail(said.out[:200])),
    Case("ledger verify --store scheduler.db", prints("the ledger is whole")),
    Case("db migrate --store new.db", prints("up to date")),
    Case("db status --store mysql://u:hunter2@127.0.0.1:9/x", prints("fix:"), Exit.UNREACHABLE),
    Case("db grants --store postgresql://h/d?schema=q --run-role app",
         prints('CREATE ROLE "app"', 'GRANT SELECT, INSERT, DELETE ON "q".rota_ledger TO "app";')),
    Case("db grants --store mysql://u@h/d --only tables --migrate-role m --read-role r@10.0.0.%",
         prints("GRANT SELECT ON `d`.rota_job TO 'r'@'10.0.0.%';")),
    Case("db grants --store postgresql://h/d --run-role x;y", says_once("run_role: 'x;y' is not the name"), Exit.USAGE),
    Case("db grants --store scheduler.db", prints("has no roles"), Exit.USAGE),
    Case("status --watch 200ms --times 2 -o jsonl", twice),
    Case("status --times 2", prints("--times needs --watch"), Exit.USAGE),
    Case("stats", prints("submitted", "wait", "p95")),
    Case("stats --since 30m --by type -o json", lambda said: said.json),
    Case("stats --since soon", prints("'soon' is not a duration"), code=Exit.USAGE),
    Case("doctor", lambda said: "critical" not in said.out),
    Case("doctor --store empty.db", prints("migration_pending", "rota db migrate"), code=Exit.PROBLEMS_FOUND),
    Case("version", prints("0.")),
    Case(
        "bench --rate 50 --duration 0.2s --connections 2 --batch 2 --payload-size 10 --queue b --wait 20s --json",
        lambda said: said.json or pytest.fail(said.out),
    ),
    Case("bench --store bench.db --duration 0.2s --keep", prints("jobs")),
    # Tokens.
    Case("token create ci --role submitter --queues mail,report-* --expires 90d", prints("rota_", "shown this once")),
    Case("token create worker --role worker --queues a,a:0", prints("shown this once")),
    Case("token create ci2 --role viewer --queues=", prints("queues: it must not be empty"), Exit.USAGE),
    Case("token create ci2 --role viewer --expires=", prints("expires"), Exit.USAGE),
    Case("token create reader --actions jobs.read -o ids", counts(1)),
    Case(
        "token create slow --role viewer --requests-per-second 5 --streams-per-second 1 --bytes-in-flight 1000",
        prints("shown this once"),
    ),
    Case("token list", prints("requests_per_second=5,streams_per_second=1,bytes_in_flight=1000")),
    Case("token list", prints("ci", "submitter", "mail,report-*", "jobs.read")),
    Case("token rotate ci --overlap 1h", prints("rota_", "shown this once")),
    Case("token revoke ci --dry-run", prints("would revoke the token ci")),
    Case("token revoke ci --yes", prints("revoked ci")),
    # Namespaces.
    Case("namespaces create acme --jobs-waiting 9 --requests-per-second 900 --bytes-in-flight 90000",
         prints("created namespace acme")),
    Case("namespaces list", prints("acme", "jobs_waiting=9,requests_per_second=900,bytes_in_flight=90000")),
    Case("namespaces list --namespace acme", prints("no effect here"), Exit.USAGE),
    Case("submit --type x --namespace acme -o ids", counts(1)),
    Case("jobs list --namespace acme -o ids", counts(1)),
    Case("jobs list --namespace nowhere", prints("unknown"), Exit.NOT_FOUND),
    Case("namespaces set-limits acme --jobs-waiting 1 --requests-per-second 800 --bytes-in-flight 80000",
         prints("jobs_waiting 1")),
    Case("submit --type x --namespace acme", prints("may wait in this namespace"), Exit.ERROR),
    Case("namespaces set-limits acme", prints("no limits")),
    Case("token create ci --role admin --namespace acme", prints("rota_acme_")),
    Case("namespaces delete acme --confirm acne", prints("not deleted"), Exit.USAGE),
    Case("namespaces delete acme", prints("--confirm acme"), Exit.USAGE),
    Case("namespaces delete acme --confirm acme", prints("deleted namespace acme")),
    Case("jobs list --namespace acme", prints("unknown"), Exit.NOT_FOUND),
    # Users.
    Case("users add ada --role operator --actions tokens.read --queues mail --expires 90d --no-password",
         prints("added ada")),
    Case("users add bob --role viewer", prints("password: it has 0 characters"), Exit.USAGE),
    Case("users list", prints("ada", "operator", "mail")),
    Case("users passwd ada", prints("password: it has 0 characters"), Exit.USAGE),
    Case("users remove ada --dry-run", prints("would remove the user ada")),
    Case("users remove ada --yes", prints("removed ada")),
    # Webhooks.
    Case("webhooks add ops https://example.com/hook --events job.dead,queue.paused --queues mail",
         prints("whsec_", "shown this once")),
    Case("webhooks list", prints("ops", "https://example.com/hook", "job.dead,queue.paused", "mail")),
    Case("webhooks get ops", prints("ops", "is_enabled")),
    Case("webhooks test ops", prints("on its way")),
    Case("webhooks deliveries ops --limit 5", prints("webhook.test")),
    Case("webhooks rotate ops --overlap 1h", prints("whsec_", "shown this once")),
    Case("webhooks enable ops", prints("enabled ops")),
    Case("webhooks remove ops --dry-run", prints("would remove the webhook ops")),
    Case("webhooks remove ops --yes", prints("removed ops")),
    # Global flags, wherever they stand.
    Case("-o json jobs get {typed}", has_id("typed")),
    Case("jobs --output=json get {typed}", has_id("typed")),
    Case("--time iso jobs get {typed}", prints("created_at", "Z")),
    Case("--api-url http://user:hunter2@127.0.0.1:9 status", prints("no server answers"), Exit.UNREACHABLE),
    Case("--token hunter2 -q -v version", prints("0.")),
    Case("--api-url https://127.0.0.1:9 --ca-file x.pem status", prints("ca_file: 'x.pem' is not usable"), Exit.USAGE),
    Case("--client-key x.key status", prints("no effect without 'client_cert'"), Exit.USAGE),
    Case("--api-url https://127.0.0.1:9 --client-cert x.pem status", prints("client_cert: 'x.pem'"), Exit.USAGE),
    # What is not known.
    Case("jobs list --store postgresql://u:hunter2@h/x", prints("no flag --store"), Exit.USAGE),
    Case("status --max-attempts 3", prints("no flag --max-attempts", "see `rota status --help`"), Exit.USAGE),
    Case("version extra", prints("unexpected argument 'extra'"), Exit.USAGE),
]  # fmt: skip


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "jobs.jsonl").write_text('{"type": "add"}\n\n{"type": "echo", "payload": 1}\n')
    with open_system(tmp_path) as system:
        for name in list(system.environment):
            if name.startswith("ROTA_"):
                monkeypatch.setenv(name, system.environment[name])
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("EDITOR", "true")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.stdin", io.StringIO())
        system.start("standalone", "--port", str(system.port), "--db", "scheduler.db", "--app", "tasks:app",
                    "--worker-id", "w1", "--queues", "default,side,b")  # fmt: skip
        system.until_up()
        yield system


def test_every_command_does_what_it_says(server: System, capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    names = {"now": f"{now:%Y-%m-%dT%H:%M:%SZ}", "days_ago": f"{now - timedelta(days=3):%Y-%m-%dT%H:%M:%SZ}"}
    for case in CASES:
        typed = [word.format(**names) for word in case.typed.split()]
        try:
            code = main([*typed, *case.more])
        except SystemExit as end:
            code = int(end.code or 0)
        seen = capsys.readouterr()
        assert code == case.code, f"{case.typed}: {code}\n{seen.out}\n{seen.err}\n{server.logs()}"
        assert "Traceback" not in seen.err, case.typed
        assert "hunter2" not in seen.out + seen.err, case.typed
        try:
            case.check(Said(seen.out, seen.err, server, names))
        except Exception as error:
            raise AssertionError(f"rota {case.typed}: {error}\n{seen.out}\n{seen.err}") from error
    assert not (server.folder / "typo.db").exists(), "a check makes no store"


def _leaves(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    below: Mapping[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below = action.choices
    for name, one in below.items():
        yield from _leaves(one, (*words, name))
    if not below:
        yield (
            " ".join(words),
            [max(action.option_strings, key=len) for action in parser._actions if action.option_strings],
        )


def test_no_command_and_no_flag_is_without_a_case() -> None:
    shared = {max(action.option_strings, key=len) for action in global_flags()._actions}
    used = " ".join(case.typed for case in CASES)
    commands, flags = 0, 0
    for command, names in _leaves(build()):
        if command in ROLES:
            continue
        typed = [case.typed for case in CASES if f" {command} " in f" {_bare(case.typed)} "]
        assert typed, f"no case for `rota {command}`"
        commands += 1
        for name in {*names} - shared - {"--help", "--output"}:
            aliases = _aliases(command, name)
            assert any(set(aliases) & {word.partition("=")[0] for word in one.split()} for one in typed), (
                f"no case for `rota {command} {name}`"
            )
            flags += 1
    for name in shared:
        assert any(flag in used for flag in _shared_aliases(name)), f"no case for {name}"
    assert (commands, flags) >= (39, 77), "commands and flags may only grow"


def _bare(typed: str) -> str:
    """Leave out global flags before the command."""
    return re.sub(
        r"(^| )(-o|--output|--time|--api-url|--token|--ca-file|--client-cert|--client-key)[= ]\S+|(^| )-[qv]\b",
        "",
        typed,
    )


def _parser_of(command: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = build()
    for word in command.split():
        (action,) = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
        parser = action.choices[word]
    return parser


def _aliases(command: str, name: str) -> list[str]:
    (action,) = [one for one in _parser_of(command)._actions if name in one.option_strings]
    return list(action.option_strings)


def _shared_aliases(name: str) -> list[str]:
    (action,) = [one for one in global_flags()._actions if name in one.option_strings]
    return list(action.option_strings)

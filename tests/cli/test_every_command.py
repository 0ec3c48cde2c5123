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
from pathlib import Path
from typing import Any

import pytest

from journeys.stage import Stage, staged
from rota.cli.exits import Exit
from rota.cli.main import ROLES, main
from rota.cli.tree import build, global_flags

TASKS = """
from rota import GiveUp, Rota

app = Rota()


@app.task(name="fail")
def fail() -> None:
    raise GiveUp("bad card")


@app.task(name="add")
def add(a: int = 1, b: int = 2) -> int:
    return a + b
"""


@dataclass
class Said:
    """What a command printed, what the server knows then, and the ids that were noted."""

    out: str
    err: str
    stage: Stage
    names: dict[str, str]

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON
        return json.loads(self.out)

    def job(self, name: str) -> dict[str, Any]:
        return self.stage.job(self.names[name])


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


def has_state(name: str, state: str) -> Check:
    def check(said: Said) -> None:
        said.stage.until(lambda: said.job(name)["status"], lambda seen: seen == state)

    return check


def retried_one_of_two(said: Said) -> None:
    prints("'nosuch' is not an id", "1 of 2 done")(said)
    has_state("dead", "dead")(said)


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


def schedule_has(*, paused: bool) -> Check:
    def check(said: Said) -> None:
        assert bool(said.stage.ask("GET", "/v1/schedules/nightly").get("paused_at")) is paused

    return check


def has_id(name: str) -> Check:
    def check(said: Said) -> None:
        assert said.json["id"] == said.names[name]

    return check


def queue_has(**values: object) -> Check:
    def check(said: Said) -> None:
        (queue,) = [one for one in said.stage.ask("GET", "/v1/queues")["items"] if one["name"] == "side"]
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
    Case("submit --type add --on-success echo --wait", prints("3")),
    Case("submit --type fail --on-failure echo --max-attempts 1 --wait 30s", prints("bad card"), Exit.JOB_FAILED),
    Case(
        "submit --type add --tz Europe/Berlin -o json --cron",
        notes("recurring", prints("Europe/Berlin")),
        more=("0 3 * * *",),
    ),
    Case("submit --type add --every 1h -q", notes("hourly")),
    Case("submit --type add --dry-run", prints("add")),
    Case("submit --from jobs.jsonl", prints("submitted 2 of 2 jobs")),
    Case("submit --from jobs.jsonl --dry-run", prints("would submit 2 jobs")),
    Case("submit --from jobs.jsonl --type add", prints("--type does not apply"), Exit.USAGE),
    Case("submit --tz Europe/Berlin", prints("no --cron"), Exit.USAGE),
    Case("submit --wait soon", prints("30s, 5m"), Exit.USAGE),
    Case("submit --cron x --wait", prints("never ends"), Exit.USAGE),
    Case("submit --priority 11", prints("priority"), Exit.USAGE),
    # Looking at jobs.
    Case("status", prints("queue_depth", "workers")),
    Case("status {typed}", prints("{typed}", "completed")),
    Case("status -o ids", prints("has no id"), Exit.USAGE),
    Case("jobs list --type ma*", says_once("patterns cannot be searched for"), Exit.USAGE),
    Case("jobs list --status completed --type add --limit 2 -o ids", counts(2)),
    Case("jobs list --queue side -o ids", lists("later")),
    Case("jobs list --tag red -o ids", lists("later")),
    Case("jobs list --limit 0", prints("1 or more"), Exit.USAGE),
    Case("jobs list --limit -3", prints("--limit"), Exit.USAGE),
    Case("jobs list -o csv", is_csv_of("id", "type", "status", "queue", "attempts", "run_at", "worker", "error")),
    Case("jobs get {typed} -o json", lambda said: said.json["result"] == 5 or pytest.fail(said.out)),
    Case("jobs get {typed} -o csv", prints("id,", "{typed}")),
    Case("jobs get 0000000000000", prints("never submitted here"), Exit.NOT_FOUND),
    Case("jobs explain {later}", prints("scheduled_future")),
    Case("jobs attempts {dead}", prints("bad card")),
    Case("jobs steps {typed}", prints("no steps")),
    Case("jobs resolve {typed} card --happened --result 1", prints("card"), Exit.USAGE),
    Case("jobs resolve {typed} card --not-happened", prints("card"), Exit.USAGE),
    Case("jobs result {typed}", prints("5")),
    Case("jobs result {typed} --wait 5s", prints("5")),
    Case("jobs result {later} --wait 0.1s", prints("still scheduled"), Exit.TIMED_OUT),
    # Acting on jobs.
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
    Case("dlq list --group -o ids", lambda said: said.out.strip() or pytest.fail("no fingerprint")),
    Case("dlq show {dead}", prints("bad card")),
    Case("dlq retry {dead} --dry-run", shows("dead", status="dead")),
    Case("dlq retry", prints("--all"), Exit.USAGE),
    Case("dlq retry --all", prints("standard input is not a terminal"), Exit.USAGE),
    Case("dlq retry --all --yes -q", has_state("dead", "dead")),
    Case("dlq retry nosuch", says_once("retry nosuch: 'nosuch' is not an id: ids are 13"), Exit.NOT_FOUND),
    Case("dlq retry nosuch {dead} --yes", retried_one_of_two, Exit.NOT_FOUND),
    Case("dlq retry {typed} {dead} --yes", prints("1 of 2 done, 1 refused"), Exit.CONFLICT),
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
    # Queues, workers, the cluster.
    Case("queues set-limit side --max-depth 5", queue_has(max_depth=5)),
    Case("queues pause side --reason drill", queue_has(pause_reason="drill")),
    Case("queues resume typo", says_once("queue 'typo': unknown, it has neither"), Exit.NOT_FOUND),
    Case("queues resume side", queue_has(pause_reason=None)),
    Case("queues list -o ids", prints("side")),
    Case("limits set queue:side --max-running 5 --rate-limit 100/s", prints("max_running 5")),
    Case("limits set task:slow --per-key-max-running 2 --per-key-rate-limit 10/s", prints("per_key_max_running 2")),
    Case("limits list -o ids", prints("queue:side", "task:slow")),
    Case("limits close queue:side --reason drill --until 2030-01-01T00:00:00Z", prints("2030-01-01")),
    Case("limits get queue:side", prints("drill")),
    Case("limits open queue:side", prints("opened queue:side")),
    Case("limits delete queue:side", prints("deleted queue:side")),
    Case("limits delete task:slow", prints("deleted task:slow")),
    Case("workers list -o ids", prints("w1")),
    Case("workers list", prints("w1", "fail")),
    Case("cluster show", prints("leader")),
    Case("cluster members -o ids", prints("w1")),
    Case("cluster set log_level debug", prints("debug")),
    Case("cluster unset log_level", prints("log_level")),
    # The store, the settings, the version.
    Case("config show", prints("keep_completed")),
    Case("config show --origin", prints("ROTA_API_URL")),
    Case("db status --store scheduler.db", prints("0001")),
    Case("db check --store scheduler.db", prints("sound")),
    Case("db check --store typo.db", prints("holds no store"), Exit.NOT_FOUND),
    Case("ledger verify --store scheduler.db", prints("the ledger is whole")),
    Case("db migrate --store new.db", prints("up to date")),
    Case("db status --store mysql://u:hunter2@127.0.0.1:9/x", prints("fix:"), Exit.UNREACHABLE),
    Case("version", prints("0.")),
    Case(
        "bench --rate 50 --duration 0.2s --connections 2 --batch 2 --payload-size 10 --queue b --wait 20s --json",
        lambda said: said.json or pytest.fail(said.out),
    ),
    Case("bench --store bench.db --duration 0.2s --keep", prints("jobs")),
    # Global flags, wherever they stand.
    Case("-o json jobs get {typed}", has_id("typed")),
    Case("jobs --output=json get {typed}", has_id("typed")),
    Case("--time iso jobs get {typed}", prints("created_at", "Z")),
    Case("--api-url http://user:hunter2@127.0.0.1:9 status", prints("no server answers"), Exit.UNREACHABLE),
    Case("--token hunter2 -q -v version", prints("0.")),
    # What is not known.
    Case("jobs list --store postgresql://u:hunter2@h/x", prints("no flag --store"), Exit.USAGE),
    Case("status --max-attempts 3", prints("no flag --max-attempts", "see `rota status --help`"), Exit.USAGE),
    Case("version extra", prints("unexpected argument 'extra'"), Exit.USAGE),
]  # fmt: skip


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "jobs.jsonl").write_text('{"type": "add"}\n\n{"type": "echo", "payload": 1}\n')
    with staged(tmp_path) as stage:
        for name in list(stage.environment):
            if name.startswith("ROTA_"):
                monkeypatch.setenv(name, stage.environment[name])
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.stdin", io.StringIO())
        stage.start("standalone", "--port", str(stage.port), "--db", "scheduler.db", "--app", "tasks:app",
                    "--worker-id", "w1", "--queues", "default,side,b")  # fmt: skip
        stage.until_up()
        yield stage


def test_every_command_does_what_it_says(server: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, str] = {}
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
    return re.sub(r"(^| )(-o|--output|--time|--api-url|--token)[= ]\S+|(^| )-[qv]\b", "", typed)


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

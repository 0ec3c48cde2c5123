"""The command line by itself: what was typed, what is printed, how it ends."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from typing import Any

import pytest

from rota.cli.api_client import ApiClient
from rota.cli.exits import Exit
from rota.cli.main import main, modernised
from rota.cli.output import Printer, clean, column
from rota.cli.tree import build

OLDER = [
    (["-mode", "standalone", "-port", "8080"], ["standalone", "--port", "8080"]),
    (
        ["-mode=worker", "-worker-id", "w1", "-api-url", "http://x"],
        ["worker", "--worker-id", "w1", "--api-url", "http://x"],
    ),
    (["-port", "1", "-mode", "scheduler", "-db", "f"], ["scheduler", "--port", "1", "--db", "f"]),
    (["scheduler", "-port", "8080"], ["scheduler", "--port", "8080"]),
    (["jobs", "list", "-o", "json", "-q"], ["jobs", "list", "-o", "json", "-q"]),
    (["submit", "--payload", "-"], ["submit", "--payload", "-"]),
]


@pytest.mark.parametrize(("typed", "meant"), OLDER)
def test_the_single_dash_form_is_read(typed: list[str], meant: list[str]) -> None:
    assert modernised(typed) == meant


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["jobz"], "did you mean 'jobs'"),
        (["jobs", "lst"], "did you mean 'list'"),
        (["jobs", "list", "--statuss", "x"], "did you mean '--status'"),
        (["submit", "--payload", "{not json"], "is not JSON"),
        (["submit", "--payload", "@/no/such/file"], "No such file"),
    ],
)
def test_wrong_usage_ends_with_two_and_says_what_was_meant(
    typed: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(typed)
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == Exit.USAGE
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


@pytest.mark.parametrize("url", ["htp://host", "127.0.0.1:8080"])
def test_a_wrong_address_is_shown_as_it_was_typed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It was shown as a Python tuple."""
    assert main(["status", "--api-url", url]) == Exit.USAGE
    assert f"--api-url: {url!r} is not usable" in capsys.readouterr().err


ENDS: list[tuple[dict[str, Any], str]] = [
    ({"status": "cancelled", "reason": "expired", "error": None}, "job a1 is cancelled (expired)\n"),
    ({"status": "cancelled", "reason": None, "error": None}, "job a1 is cancelled\n"),
    (
        {"status": "dead", "reason": "exhausted", "error": {"kind": "OSError", "message": "no"}},
        "job a1 is dead (exhausted): OSError: no\n",
    ),
]


@pytest.mark.parametrize(("ended", "said"), ENDS)
def test_a_job_without_a_result_is_said_to_have_ended_and_why(
    ended: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a job that had expired it said "is cancelled :"."""
    monkeypatch.setattr(ApiClient, "get", lambda *_, **__: {"id": "a1", "result": None, **ended})
    assert main(["jobs", "result", "a1"]) == Exit.JOB_FAILED
    assert capsys.readouterr().err == f"rota: {said}fix: see `rota jobs explain a1`\n"


def test_a_new_token_is_said_to_end(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`--expires 90` is 90 seconds, and nothing showed it."""
    token = {"name": "ci", "id": "abc", "secret": "rota_abc", "warnings": [], "expires_at": "2026-03-01T12:01:30Z"}
    monkeypatch.setattr(ApiClient, "post", lambda *_, **__: token)
    assert main(["token", "create", "ci", "--role", "viewer", "--expires", "90"]) == Exit.OK
    assert "token ci (abc), expires at 2026-03-01T12:01:30Z; its secret" in capsys.readouterr().err


def test_no_server_ends_with_eight_and_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--api-url", "http://127.0.0.1:9"]) == Exit.UNREACHABLE
    assert "rota standalone" in capsys.readouterr().err


def test_every_command_names_a_function_that_exists() -> None:
    seen = 0

    def walk(parser: Any) -> None:  # noqa: ANN401 - argparse's own
        nonlocal seen
        for action in parser._actions:
            if action.__class__.__name__ == "_SubParsersAction":
                for below in action.choices.values():
                    walk(below)
        if run := parser.get_default("run"):
            module, _, function = run.partition(":")
            assert callable(getattr(__import__(f"rota.cli.commands.{module}", fromlist=["x"]), function))
            seen += 1

    walk(build())
    assert seen > 30


RECORDS: list[dict[str, Any]] = [
    {"id": "a1", "name": "mail", "count": 3},
    {"id": "b2", "name": "\x1b[31mred", "count": None},
]
COLUMNS = (column("id"), column("name"), column("count"))
FORMS = {
    "table": "ID  NAME      COUNT\na1  mail      3\nb2  \ufffd[31mred\n",
    "jsonl": '{"id": "a1", "name": "mail", "count": 3}\n{"id": "b2", "name": "\\u001b[31mred", "count": null}\n',
    "csv": "id,name,count\r\na1,mail,3\r\nb2,\ufffd[31mred,\r\n",
    "ids": "a1\nb2\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_records_are_printed_in_the_form_asked_for(form: str) -> None:
    stream = io.StringIO()
    Printer(form, stream=stream).records(RECORDS, COLUMNS)
    assert stream.getvalue() == FORMS[form]


def test_what_could_drive_a_terminal_is_replaced() -> None:
    assert clean("a\x1b]0;title\x07b\u202ec\nd") == "a\ufffd]0;title\ufffdb\ufffdc\ufffdd"


HOSTILE = "\x9b31m\u202ered"


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_json_is_exact_and_cannot_drive_a_terminal(form: str) -> None:
    stream = io.StringIO()
    Printer(form, stream=stream).record({"id": "a1", "name": HOSTILE, "emoji": "é"})
    text = stream.getvalue()
    assert json.loads(text)["name"] == HOSTILE
    assert not {"\x9b", "\u202e"} & set(text)
    assert "é" in text


def test_a_cell_of_csv_is_no_formula() -> None:
    stream = io.StringIO()
    cells = {"a": "=1+1", "b": "+1", "c": "-1", "d": "@x", "e": -1, "f": "a=b"}
    Printer("csv", stream=stream).record(cells)
    assert list(csv.reader(io.StringIO(stream.getvalue())))[1] == ["'=1+1", "'+1", "'-1", "'@x", "-1", "a=b"]


def test_an_interrupted_wait_says_which_job_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(ApiClient, "post", lambda *_, **__: {"id": "0ajkv4fhvx7a2"})
    monkeypatch.setattr(ApiClient, "get", interrupted)
    assert main(["submit", "--wait"]) == Exit.INTERRUPTED
    assert "rota jobs result 0ajkv4fhvx7a2 --wait" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("role", "flag"),
    [
        *((role, flag) for role in ("scheduler", "api") for flag in ("--queues", "--concurrency", "--lease")),
        *((role, flag) for role in ("scheduler", "api", "standalone") for flag in ("--api-url", "-o")),
        ("worker", "--port"),
        ("worker", "--host"),
    ],
)
def test_a_role_refuses_flags_that_have_no_effect_on_it(
    role: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main([role, flag, "json"])
    assert end.value.code == Exit.USAGE
    assert f"there is no flag {flag}" in capsys.readouterr().err


def test_an_unknown_flag_is_named_with_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    """It was "rota: rota jobs list: there is no flag …"."""
    with pytest.raises(SystemExit):
        main(["jobs", "list", "--statuss", "x"])
    assert capsys.readouterr().err.startswith("rota: jobs list: there is no flag --statuss\n")


def test_a_job_is_shown_to_people_without_the_older_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`due_at`, `schedule_at` and `next_run_at` of a job that had ended stood beside `run_at`, all with one time."""
    job = {"id": "a1", "status": "completed", "state": "completed", "run_at": "2026-03-01T12:00:00Z"}
    older = {"due_at": job["run_at"], "schedule_at": job["run_at"], "next_run_at": job["run_at"]}
    answers = {"/v1/jobs/a1": job, "/tasks/a1": {**job, **older}}
    monkeypatch.setattr(ApiClient, "get", lambda _, path, **__: answers[path])
    assert main(["jobs", "get", "a1", "--time", "iso"]) == Exit.OK
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()] == ["id", "status", "run_at"]
    assert main(["jobs", "get", "a1", "-o", "json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == {**job, **older}


def test_a_flag_of_another_command_is_not_proposed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["status", "--max-attempt", "3"])
    assert "did you mean" not in capsys.readouterr().err


def test_help_loads_nothing_heavy() -> None:
    """Counted in modules, not in milliseconds: this is what keeps `rota --help` quick on every machine."""
    program = (
        "import sys; from rota.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'asyncio', 'uvicorn', 'httpx', 'msgspec', 'sqlite3', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""Wrong uses of a task fail in mypy and in pyright, right ones do not: the types of the function are those of the task.

And a value cannot be changed: it is the type checker alone that sees to it. All in one run of each, which take seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mypy import api

SOURCES = Path(__file__).parents[2] / "src"

RIGHT = """
from datetime import UTC, datetime
import rota
from rota import Handle, Options, Retry, Rota, Task, AsyncTask
from rota.core.ids import JobId
from rota.core.submission import NewJob

app = Rota("types.db")

@app.task
def add(a: int, b: int = 2) -> int:
    return a + b

@app.task(retry=Retry(5), queue="mail", priority=7, timeout="30s", executor="process", delivery="at_most_once")
async def send(to: str) -> bool:
    return bool(to)

job = NewJob(JobId(1), "mail")
plain: Task[[int, int], int]
handle: Handle[int] = add.submit(1, b=2)
total: int = handle.result(timeout="5s")
here: int = add(1, 2)
other: Handle[bool] = send.using(priority=9, delay="1m", tags=["a"], meta={"k": "v"}).submit("a@b.c")
chained: Handle[int] = add.using(on_success=send.call("a@b.c"), run_at=datetime.now(UTC)).submit(1)
many: list[Handle[int]] = app.submit_many([add.call(1), add.call(2)])
options: Options = {"queue": "mail", "retry": 3}
version: str = rota.__version__

async def later() -> bool:
    handle = await send.asubmit("a@b.c")
    sent: bool = await handle
    ran: bool = await send("a@b.c")
    return sent and ran
"""

WRONG = [
    'add.submit("one")',
    "add.submit(1, c=3)",
    "add.submit()",
    "add.submit(1, 2, 3)",
    "text: str = add.submit(1).result()",
    "send.submit(5)",
    "send.using(prioritty=3)",
    'send.using(priority="high")',
    "word: str = add(1)",
    '@app.task(retry="often")\ndef wrong() -> None: ...',
    "app.task(retries=5)",
    "numbers: list[int] = send.submit('a').result()",
    "job.type = 'other'",
    "from rota import Retri",
    "rota.Retri",
    "from rota.worker import Wroker",
    '@app.task(executor="proc")\ndef slow() -> None: ...',
    'add.using(delivery="exactly_once")',
    'add.using(meta={"k": 1})',
    'add.using(on_success="x")',
    "add.using(on_success=add)",
    'add.using(run_at="2030-01-01")',
    "add.using(concurrency_key=5)",
    'app.task(max_running="5")',
]


def _by_mypy(path: Path) -> dict[int, str]:
    report, complaint, _ = api.run(["--strict", "--no-error-summary", "--no-incremental", str(path)])
    assert complaint == ""
    return {int(line.split(":")[1]): line for line in report.splitlines() if ": error:" in line}


def _by_pyright(path: Path) -> dict[int, str]:
    settings = {"include": [path.name], "extraPaths": [str(SOURCES)], "pythonVersion": "3.11"}
    path.with_name("pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "--project"]
    report = subprocess.run([*command, path.parent], check=False, capture_output=True, text=True)
    found = json.loads(report.stdout)["generalDiagnostics"]
    return {one["range"]["start"]["line"] + 1: one["message"] for one in found if one["severity"] == "error"}


@pytest.mark.parametrize("check", [_by_mypy, _by_pyright])
def test_right_uses_are_clean_and_every_planted_mistake_is_found(
    tmp_path: Path, check: Callable[[Path], dict[int, str]]
) -> None:
    program = RIGHT
    places: list[range] = []
    for mistake in WRONG:
        first = program.count("\n") + 1
        places.append(range(first, first + mistake.count("\n") + 1))
        program += mistake + "\n"
    path = tmp_path / "uses.py"
    path.write_text(program, encoding="utf-8")
    found = check(path)
    missed = [mistake for mistake, lines in zip(WRONG, places, strict=True) if not found.keys() & set(lines)]
    assert missed == []
    assert {line: said for line, said in found.items() if not any(line in lines for lines in places)} == {}

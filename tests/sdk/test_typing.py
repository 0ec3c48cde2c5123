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
from typing import Any
import rota
from rota import Call, Failure, Flow, Handle, Options, Retry, Rota, Task, AsyncTask, Workflow, WorkflowHandle
from rota import as_completed, chain, group, map, wait_all
from rota.core.ids import JobId
from rota.core.submission import NewJob

app = Rota("types.db")

@app.task
def add(a: int, b: int = 2) -> int:
    return a + b

@app.task(retry=Retry(5), queue="mail", priority=7, timeout="30s", executor="process", delivery="at_most_once")
async def send(to: str) -> bool:
    return bool(to)

@app.task
def join(left: str, right: str) -> str:
    return left + right

@app.task
def alert(failure: dict[str, object]) -> None:
    print(failure["id"])

@app.task
def add_up(numbers: list[int]) -> int:
    return sum(numbers)

@app.task
def words(number: int) -> str:
    return str(number)

@app.task
def nested(numbers: list[list[int]]) -> int:
    return len(numbers)

@app.task
def told(failure: Failure) -> None:
    print(failure["error"])

@app.task
def mixed(values: list[int | str]) -> int:
    return len(values)

@app.task
def nothing() -> None: ...

then_1: Flow[str] = add.call(1).then(words)
then_2: Flow[str] = add.call(1).then(add).then(words)
then_3: Flow[bool] = add.call(1).then(send.call("a"))
then_4: Flow[None] = add.call(1).then(nothing.call())
then_5: Flow[list[int]] = add.call(1).then(add, add.call(2))
then_6: Flow[int] = add.call(1).then(add, add).then(add_up)
then_7: Flow[int] = add.call(1).then(add, words).then(mixed)
then_9: Flow[list[Any]] = add.call(1).then(add, words, add, words)
group_5: Flow[int] = group(add.call(1), words.call(2)).then(mixed)
group_6: Flow[int] = group(add.call(1), words.call(2), add.call(3)).then(mixed)
group_7: Flow[list[Any]] = group(add.call(1), words.call(2), add.call(3), send.call("a"))
group_9: Flow[list[Any]] = group(add.call(1), group(add.call(2), add.call(3)), group(group(add.call(4))), add.call(5))
group_8: Flow[list[int]] = group(*(add.call(number) for number in range(3)))
then_8: Flow[list[str]] = group(add.call(1), add.call(2)).then(add_up).then(words, words, words)
always_2: Flow[list[None]] = add.call(1).always(nothing.call(), nothing.call())
chain_1: Flow[str] = chain(add.call(1), add, words)
chain_2: Flow[bool] = chain(add.call(1), words, send)
chain_3: Flow[int] = chain(group(add.call(1), add.call(2)), add_up)
group_1: Flow[list[int]] = group(add.call(1), add.call(2))
group_2: Flow[int] = group(add.call(1), add.call(2)).then(add_up)
group_3: Flow[int] = group(group(add.call(1)), group(add.call(2))).then(nested)
group_4: Flow[list[Any]] = group(add.call(1), words.call(2))
map_1: Flow[list[int]] = map(add, [1, 2])
map_2: Flow[int] = map(add, range(3)).then(add_up)
map_3: Flow[list[int]] = map(add_up, [1, 2, 3], chunk=2)
failed_1: Flow[int] = add.call(1).on_failure(told)
failed_2: Flow[int] = group(add.call(1)).then(add_up).on_failure(told)
always_1: Flow[None] = add.call(1).always(nothing.call())
flow_handle: WorkflowHandle[str] = chain(add.call(1), words).submit(name="w", policy="fail_fast")
flow_value: str = flow_handle.result("1s")
graph = Workflow("graph", policy="finish")
node_1 = graph.add("a", add.call(1))
node_2 = graph.add("b", words, after=node_1)
node_3 = graph.add("c", add_up, after=[node_1, node_1])
node_4 = graph.add("d", told, after=node_2.failed)
node_5 = graph.add("e", nothing.call(), after=[node_1.ended, node_3])
graph_handle: WorkflowHandle[dict[str, Any]] = graph.submit()
waited: list[int] = wait_all([add.submit(1), add.submit(2)], "1s")
for each in as_completed([add.submit(1)]):
    one_by_one: int = each.result()

job = NewJob(JobId(1), "mail")
plain: Task[[int, int], int]
handle: Handle[int] = add.submit(1, b=2)
total: int = handle.result(timeout="5s")
here: int = add(1, 2)
other: Handle[bool] = send.using(priority=9, delay="1m", tags=["a"], meta={"k": "v"}).submit("a@b.c")
chained: Handle[int] = add.using(on_success=send.call("a@b.c"), run_at=datetime.now(UTC)).submit(1)
passed_on: Handle[int] = add.using(on_success=add, on_failure=alert).submit(1)
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
    "add.using(on_success=join)",
    'add.using(run_at="2030-01-01")',
    "add.using(concurrency_key=5)",
    'app.task(max_running="5")',
    "add.call(1).then(send)",
    "add.call(1).then(join)",
    "add.call(1).then(nothing)",
    "wrong_then: Flow[int] = add.call(1).then(words)",
    "add.call(1).then(words, send)",
    "add.call(1).then()",
    "wrong_group: Flow[list[str]] = group(add.call(1), add.call(2))",
    "group(add.call(1), words.call(2)).then(add_up)",
    "wrong_branches: Flow[list[str]] = add.call(1).then(add, add)",
    "chain(add.call(1), words, add)",
    "chain(add.call(1), add_up)",
    "chain(add, words)",
    "group(add.call(1), add.call(2)).then(words)",
    "group(words.call(1)).then(add_up)",
    "map(send, [1, 2])",
    "map(add, [1, 2], chunk=2)",
    "add.call(1).on_failure(words)",
    'chain(add.call(1)).submit(policy="never")',
    "wrong_value: int = chain(add.call(1), words).submit().result()",
    'graph.add("x", send, after=node_1)',
    'graph.add("y", add_up, after=node_1)',
    'graph.add("z", words, after=[node_1])',
    "wrong_wait: list[str] = wait_all([add.submit(1)])",
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

"""Wrong uses of a task fail in mypy, right ones do not: the types of the function are the types of the task.

And a value cannot be changed: it is the type checker alone that sees to it. All in one run, which takes seconds.
"""

from __future__ import annotations

from pathlib import Path

from mypy import api

RIGHT = """
from rota import Handle, Retry, Rota, Task, AsyncTask
from rota.core.identity import JobId
from rota.core.submission import NewJob

app = Rota("types.db")

@app.task
def add(a: int, b: int = 2) -> int:
    return a + b

@app.task(retry=Retry(5), queue="mail", priority=7, timeout="30s")
async def send(to: str) -> bool:
    return bool(to)

job = NewJob(JobId(1), "mail")
plain: Task[[int, int], int]
handle: Handle[int] = add.submit(1, b=2)
total: int = handle.result(timeout="5s")
here: int = add(1, 2)
other: Handle[bool] = send.using(priority=9, delay="1m").submit("a@b.c")

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
]


def test_right_uses_are_clean_and_every_planted_mistake_is_found(tmp_path: Path) -> None:
    program = RIGHT
    lines = []
    for mistake in WRONG:
        lines.append(program.count("\n") + 1)
        program += mistake + "\n"
    path = tmp_path / "uses.py"
    path.write_text(program, encoding="utf-8")
    report, complaint, _ = api.run(["--strict", "--no-error-summary", "--no-incremental", str(path)])
    assert complaint == ""
    found = {int(line.split(":")[1]) for line in report.splitlines() if ": error:" in line}
    assert found == set(lines), report

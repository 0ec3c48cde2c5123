"""The pages about workflows: their programs run and print what the pages say; Celery's does so with a real worker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from servers.valkey import shared_valkey

DOCS = Path(__file__).parents[2] / "docs"
CODE = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
PRINTED: dict[str, list[list[str]]] = {
    "tutorial-workflow.md": [
        ["56"],
        ["20 parts, 2470 in all", "{'completed': 21}"],
        ["measure failed: part 7 is missing", "part 7 is missing", "236 in all"],
    ],
    "howto/workflows.md": [[], []],
}


@pytest.mark.parametrize(
    ("page", "place"), [(page, place) for page, programs in PRINTED.items() for place in range(len(programs))]
)
def test_a_program_of_a_page_runs_and_prints_what_the_page_says(page: str, place: int, tmp_path: Path) -> None:
    programs = CODE.findall((DOCS / page).read_text(encoding="utf-8"))
    assert len(programs) == len(PRINTED[page])
    (tmp_path / "program.py").write_text(programs[place], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    for line in PRINTED[page][place]:
        assert line in done.stdout, done.stdout + done.stderr


CANVAS_PRINTS = ["6", "[6, -3]", "[0, 2, 4]", "6", "failed: broken cannot use 3"]


def test_the_project_with_celery_and_its_port_print_the_same(tmp_path: Path) -> None:
    page = (DOCS / "howto/from-celery.md").read_text(encoding="utf-8")
    with_celery, with_rota = CODE.findall(page)
    shown = ", ".join(f"`{line}`" for line in CANVAS_PRINTS[:-1])
    assert f"Both print {shown} and `{CANVAS_PRINTS[-1]}`" in page.replace("\n", " ")
    assert _with_celery(with_celery, tmp_path) == CANVAS_PRINTS
    (tmp_path / "port").mkdir()
    assert _output("canvas.py", with_rota, tmp_path / "port").splitlines() == CANVAS_PRINTS


def _with_celery(program: str, folder: Path) -> list[str]:
    """Run the project with a server and a worker of its own; return what it printed, and then what its worker did."""
    redis = "redis://127.0.0.1:6379/0"
    assert program.count(redis) == 2
    # A database of its own: other tests share the server.
    own = f"{shared_valkey().url}/9"
    (folder / "canvas.py").write_text(program.replace(redis, own), encoding="utf-8")
    log = folder / "worker.log"
    command = [sys.executable, "-m", "celery", "-A", "canvas", "worker", "-P", "solo", "-l", "WARNING"]
    with log.open("wb") as output:
        worker = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    try:
        printed = _output("canvas.py", None, folder).splitlines()
    finally:
        # It ends what it is doing first, so what the error callback prints is in the log.
        worker.terminate()
        worker.wait(30)
    return [*printed, *re.findall("failed: .*", log.read_text(encoding="utf-8"))]


def _output(name: str, program: str | None, folder: Path) -> str:
    if program is not None:
        (folder / name).write_text(program, encoding="utf-8")
    done = subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout

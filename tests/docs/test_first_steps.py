"""README and tutorial: their programs run, and the table of exit codes has every code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rota.cli.exits import Exit

ROOT = Path(__file__).parents[2]


def programs(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_program_of_the_readme_prints_its_result(tmp_path: Path) -> None:
    (program,) = programs("README.md")
    (tmp_path / "tasks.py").write_text(program, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "tasks.py"], cwd=tmp_path, capture_output=True, check=True, text=True, timeout=60
    )
    assert run.stdout == "report of monday\n"


def test_the_programs_of_the_tutorial_print_what_it_says(tmp_path: Path) -> None:
    tasks, submit = programs("docs/tutorial.md")
    (tmp_path / "tasks.py").write_text(tasks, encoding="utf-8")
    body = "\n".join(f"    {line}" for line in submit.splitlines())
    (tmp_path / "submit.py").write_text(f"from tasks import app\nwith app.run():\n{body}\n", encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "submit.py"], cwd=tmp_path, capture_output=True, check=True, text=True, timeout=60
    )
    shown = re.search(r"This prints `(.*?)`", (ROOT / "docs/tutorial.md").read_text(encoding="utf-8"))
    assert shown is not None
    assert run.stdout == f"{shown[1]}\n"


def test_make_run_serves_every_queue_of_the_demo_app() -> None:
    """Its status had been degraded from the first minute on: no worker took the jobs of two queues."""
    served = re.search(r"--app shop:app [^#]*?--queues (\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    used = re.findall(r'queue="(\w+)"', (ROOT / "examples" / "demo" / "shop.py").read_text(encoding="utf-8"))
    assert served is not None
    assert sorted(served[1].split(",")) == sorted({"default", *used})


def test_the_table_of_exit_codes_has_every_code() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) \|", page, flags=re.MULTILINE) == [str(code.value) for code in Exit]


def test_the_first_sentence_is_the_description_of_the_package_and_of_the_command() -> None:
    sentence = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[2]
    assert f'description = "{sentence}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    usage = subprocess.run(
        [sys.executable, "-m", "rota", "--help"], capture_output=True, check=True, text=True, env={"COLUMNS": "200"}
    )
    assert sentence in usage.stdout


def test_the_list_of_guides_has_every_guide() -> None:
    folder = ROOT / "docs" / "howto"
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(page.name for page in folder.glob("*.md") if page.name != "README.md")

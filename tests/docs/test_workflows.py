"""The pages about workflows: their programs run and print what the pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
CODE = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
PRINTED: dict[str, list[list[str]]] = {
    "tutorial-workflow.md": [
        ["56"],
        ["20 parts, 2470 in all", "{'completed': 21}"],
        ["measure failed: part 7 is missing", "part 7 is missing", "236 in all"],
    ],
    "howto/workflows.md": [[], []],
    "howto/from-celery.md": [["6", "[0, 2, 4]", "6", "failed: broken cannot use 3"]],
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

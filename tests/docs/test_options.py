"""The page about options: its table has them all, its program runs, and the refusal that it shows is real."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rota import Options, Rota
from rota.core.errors import InvalidRequest
from rota.core.lifecycle import State

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "options.md").read_text(encoding="utf-8")


def test_the_table_has_every_option() -> None:
    rows = re.findall(r"^\| (`.*?`) \|", PAGE, flags=re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(Options.__annotations__)


def test_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - our own page
    job = names["handle"].job
    assert (job.state, job.queue, job.max_attempts, job.idempotency_key) == (State.SCHEDULED, "mail", 5, "welcome-7")
    assert job.on_failure.type == "complain"
    names["app"].close()


def test_the_refusal_is_real(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```text\n(.*?)\n```", PAGE, flags=re.DOTALL)
    with pytest.raises(InvalidRequest) as refusal:
        Rota(str(tmp_path / "rota.db")).submit_by_name("mail", tags="abc")
    assert str(refusal.value) == shown

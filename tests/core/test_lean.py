"""What a process loads, it pays for at each start."""

from __future__ import annotations

import subprocess
import sys


def loaded_by(statements: str) -> set[str]:
    program = f"{statements}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_no_process_loads_what_only_a_command_line_of_somebody_else_needs() -> None:
    loaded = loaded_by("import rota.cli.commands.roles, rota.client, rota.worker.builtin.http")
    assert "httpx" in loaded
    assert loaded.isdisjoint({"rich", "pygments", "httpx._main"})


def test_whoever_wants_the_command_line_of_httpx_still_finds_it() -> None:
    assert "httpx._main" in loaded_by("import rota.lean, httpx._main")
    assert "httpx._main" in loaded_by("import httpx, rota.lean")

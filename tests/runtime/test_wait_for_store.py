"""Starting while the database is away: wait for it, and end with a remedy if it stays unavailable."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from journeys.system import open_system
from rota import Rota
from rota.cli.exits import Exit
from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.runtime.store import LONGEST_PAUSE_SECONDS, wait_for_store
from servers.private_server import free_port
from simulation.loop import run

MINUTE = timedelta(seconds=60)
SERVER = "postgresql://rota@db/rota"


class Opening:
    """A store that can be opened at a time, and when that was tried."""

    def __init__(self, back_at: float, error: Exception | None = None) -> None:
        self._back_at = back_at
        self._error = error or StoreUnavailable("nobody listens there")
        self.tries: list[float] = []

    async def __call__(self) -> str:
        self.tries.append(asyncio.get_running_loop().time())
        if self.tries[-1] < self._back_at:
            raise self._error
        return "open"


def test_a_database_that_comes_back_in_time_is_waited_for() -> None:
    opening = Opening(back_at=40)
    assert run(wait_for_store(SERVER, opening, MINUTE, rng=lambda: 0.5)) == "open"
    pauses = [round(later - earlier, 3) for earlier, later in pairwise(opening.tries)]
    assert pauses == sorted(pauses)
    assert opening.tries[-1] - 40 <= LONGEST_PAUSE_SECONDS * 1.5


def test_a_database_that_stays_away_is_given_up_when_the_time_is_over() -> None:
    opening = Opening(back_at=1000)
    with pytest.raises(StoreUnavailable, match="nobody listens"):
        run(wait_for_store(SERVER, opening, MINUTE, rng=lambda: 0.5))
    assert opening.tries[-1] == pytest.approx(60)


@pytest.mark.parametrize(
    ("url", "error"), [("rota.db", None), (SERVER, InvalidRequest("no such driver"))], ids=["file", "wrong"]
)
def test_what_waiting_cannot_help_is_not_waited_for(url: str, error: Exception | None) -> None:
    opening = Opening(back_at=1000, error=error)
    with pytest.raises((StoreUnavailable, InvalidRequest)):
        run(wait_for_store(url, opening, MINUTE))
    assert len(opening.tries) == 1


SERVING = """
import sys
from rota import Rota
Rota(sys.argv[1]).serve()
print("left", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_ends_quietly_when_it_is_told_to_stop_while_its_database_is_away(
    tmp_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-c", SERVING, f"postgresql://rota@127.0.0.1:{free_port()}/rota"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        assert "the store is unavailable" in process.stderr.readline()
        process.send_signal(number)
        output, errors = process.communicate(timeout=30)
    assert (output, process.returncode) == ("left\n", 0), errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
@pytest.mark.parametrize("role", ["standalone", "scheduler", "api", "worker"])
def test_a_role_whose_database_stays_away_exits_as_unreachable(tmp_path: Path, role: str, scheme: str) -> None:
    with open_system(tmp_path) as system:
        store = f"{scheme}://rota:hunter2@127.0.0.1:{free_port()}/rota"
        port = () if role == "worker" else ("--port", str(free_port()))
        process = system.start(role, "--store", store, *port, "--start-timeout", "1s")
        assert process.wait(60) == Exit.UNREACHABLE
        assert "the store is unavailable; trying again" in system.logs()
        assert "fix: start the database" in system.logs()
        assert "--start-timeout" in system.logs()
        assert "hunter2" not in system.logs()


def test_a_program_whose_database_stays_away_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_START_TIMEOUT", "1s")
    app = Rota(f"postgresql://rota@127.0.0.1:{free_port()}/rota")
    with pytest.raises(StoreUnavailable), app.run():
        pass

"""The system under test of the journeys: starts real processes of Rota, sends requests, and ends them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from servers.private_server import free_port

T = TypeVar("T")
DEMO = Path(__file__).parent.parent.parent / "examples" / "demo"
PATIENCE_SECONDS = 60.0
#: The servers of a store other than a file; `pgbouncer` is PostgreSQL behind it in transaction mode, `cluster` is
#: PostgreSQL with Redis Streams as the broker and etcd as the coordinator.
SERVERS = ("postgres", "pgbouncer", "mariadb", "cluster")


@dataclass
class System:
    """A folder, a port, and the processes that were started."""

    folder: Path
    #: The URL of a store, or the name of a file in the folder.
    store: str = "scheduler.db"
    port: int = field(default_factory=free_port)
    #: Environment variables of every process.
    variables: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    #: How many seconds a response may take.
    answer_within: float = PATIENCE_SECONDS

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        return clean | {"ROTA_API_URL": self.url, "NO_COLOR": "1"} | self.variables

    def start(
        self, *arguments: str, cwd: Path | None = None, environment: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process of Rota that logs to a file of its own."""
        log = (self.folder / f"log-{len(self.started)}.txt").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "rota", *arguments],
            cwd=cwd or self.folder,
            env=self.environment | (environment or {}),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log.close()
        self.started.append(process)
        return process

    def rota(self, *arguments: str, code: int = 0) -> str:
        """Run a command to its end, and return its output."""
        done = subprocess.run(
            [sys.executable, "-m", "rota", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done.stdout

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Any:  # noqa: ANN401 - JSON
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - our own server
            self.url + path, data, {"Content-Type": "application/json", **headers}, method=method
        )
        with urllib.request.urlopen(request, timeout=self.answer_within) as response:  # noqa: S310 - as above
            content = response.read()
            return json.loads(content) if content else None

    def ask_text(self, path: str) -> str:
        """Get a page as text."""
        with urllib.request.urlopen(self.url + path, timeout=self.answer_within) as response:  # noqa: S310 - our own
            content: bytes = response.read()
            return content.decode()

    def is_up(self) -> bool:
        with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            self.ask("GET", "/readyz")
            return True
        return False

    def until(self, read: Callable[[], T], holds: Callable[[T], bool], *, seconds: float = PATIENCE_SECONDS) -> T:
        """Poll until a condition holds; the failure shows the value read last."""
        give_up_at = time.monotonic() + seconds
        while True:
            seen = read()
            if holds(seen):
                return seen
            assert time.monotonic() < give_up_at, f"still {seen!r} after {seconds} s\n{self.logs()}"
            # There is no event of another process to wait for.
            time.sleep(0.05)

    def until_up(self) -> None:
        self.until(self.is_up, bool)

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/v1/jobs/{job_id}")
        return found

    def logs(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in sorted(self.folder.glob("log-*.txt")))


@contextmanager
def open_system(folder: Path, store: str = "scheduler.db") -> Iterator[System]:
    """Open a system, and kill its processes at the end."""
    system = System(folder, store)
    try:
        yield system
    finally:
        for process in system.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

"""One system on one fresh database: its client's process, its services, its workers."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.environment import BenchEnvironment
from bench.peer_environments import node_modules, peer_python
from bench.systems.processes import families, family
from bench.systems.protocol import Role
from bench.systems.registry import Candidate
from servers.private_server import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
NODE_HOST: Final = ROOT / "bench" / "systems" / "node" / "host.js"
#: Far above every job of a measurement: those that show that workers are ready.
WARM: Final = 1_100_000
_ANSWER_SECONDS: Final = 600.0
_READY_SECONDS: Final = 60.0
#: Until what a system starts beside its workers has loaded: our companions begin with that after three seconds.
_REST_SECONDS: Final = 6.0
#: How many marks are looked at together.
_LOOK: Final = 1_000


class SystemFailed(Exception):
    """A system that did not do what was requested."""


@dataclass(slots=True)
class Session:
    """What the harness says to a system, and which processes the system has."""

    candidate: Candidate
    env: BenchEnvironment
    role: Role
    told: dict[str, str]
    host: subprocess.Popen[bytes] = field(init=False)
    services: list[subprocess.Popen[bytes]] = field(default_factory=list)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    description: dict[str, Any] = field(init=False)

    def begin(self) -> None:
        """Start the client's process and the services, and connect."""
        self.host = self.env.process_group.start(self._host_command(), self.told, log=self._log("host"), pipes=True)
        self.description = self.ask("describe")
        self.ask("prepare")
        self.services += [self._start(one, "service") for one in self.ask("commands", role=self.role)["services"]]
        self.ask("open")

    def ask(self, verb: str, **what: object) -> Any:  # noqa: ANN401 - whatever the verb gives
        """Send the client a request, and wait for its answer."""
        assert self.host.stdin is not None
        assert self.host.stdout is not None
        try:
            self.host.stdin.write(json.dumps({"verb": verb, "with": what}).encode() + b"\n")
            self.host.stdin.flush()
            ready, _, _ = select.select([self.host.stdout], [], [], _ANSWER_SECONDS)
            line = self.host.stdout.readline() if ready else b""
        except BrokenPipeError:
            line = b""
        if not line:
            raise SystemFailed(f"{self.candidate.name}: no answer to {verb}\n{self.logs()}")
        answer = json.loads(line)
        if "error" in answer:
            raise SystemFailed(f"{self.candidate.name}: {verb}: {answer['error']}")
        return answer["answer"]

    def start_workers(self) -> bool:
        """Start the workers; say whether there are any in this role."""
        self.workers = [self._start(one, "worker") for one in self.ask("commands", role=self.role)["workers"]]
        return bool(self.workers)

    def warm_up(self, jobs: int = 3) -> None:
        """Wait until the workers run what is submitted, and let them come to rest."""
        self.ask("one_by_one", first=WARM, count=jobs)
        self.until_started(WARM, jobs, seconds=_READY_SECONDS)
        time.sleep(_REST_SECONDS)

    def until_started(self, first: int, count: int, *, seconds: float) -> list[float]:
        """Wait until all of some jobs have started, and say when each did."""
        give_up_at = time.monotonic() + seconds
        end, seen = first + count, first
        while seen < end:
            # On from the first that is missing: whoever reads them all, over and over, takes a share of the machine.
            part = self.env.start_times.times(seen, min(_LOOK, end - seen))
            if 0.0 not in part:
                seen += len(part)
                continue
            seen += part.index(0.0)
            ended = [process.args for process in (*self.workers, *self.services) if process.poll() is not None]
            if ended or time.monotonic() > give_up_at:
                reason = f"{ended} ended" if ended else f"{seconds:g} s have passed"
                name, missing = self.candidate.name, self.env.start_times.times(first, count).count(0.0)
                raise SystemFailed(f"{name}: {missing} of {count} jobs have not started; {reason}\n{self.logs()}")
            # What other processes do has no event to wait for.
            time.sleep(0.01)
        return self.env.start_times.times(first, count)

    def kill_workers(self) -> None:
        """End the workers and all that belongs to them at once."""
        self.env.process_group.end(self.workers, politely=False)
        self.workers = []

    def worker_pids(self) -> list[int]:
        return families([*self.workers, *self.services])

    def server_pids(self) -> list[int]:
        """Return the processes of the servers that the system stands on."""
        servers = self.env.servers
        used: list[subprocess.Popen[bytes] | None] = []
        if self.candidate.store == "postgres":
            used.append(servers.postgres.process)
        if self.candidate.store == "mysql":
            used.append(servers.mariadb.process)
        if self.candidate.store == "redis" or self.candidate.has_broker:
            used.append(servers.redis.process)
        return [pid for process in used if process is not None for pid in family(process.pid)]

    def logs(self) -> str:
        """Return the end of what the system's processes said."""
        files = [path for kind in ("host", "service", "worker") if (path := self._log(kind)).exists()]
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in files)

    def _host_command(self) -> list[str]:
        match self.candidate.environment:
            case "rota":
                return [sys.executable, "-m", "bench.systems.host", self.candidate.client]
            case "python":
                return [str(peer_python()), "-m", "bench.systems.host", self.candidate.client]
            case "node":
                node_modules()
                return ["node", str(NODE_HOST), self.candidate.client]

    def _start(self, command: list[str], kind: str) -> subprocess.Popen[bytes]:
        return self.env.process_group.start(command, self.told, log=self._log(kind))

    def _log(self, kind: str) -> Path:
        return self.env.folder / f"{self.candidate.name}-{kind}.log"


@contextmanager
def session(candidate: Candidate, env: BenchEnvironment, role: Role, *, is_counted: bool = False) -> Iterator[Session]:
    """Return a system on a fresh database, and take it away. Counting statements slows a server down a little."""
    env.start_times.clear()
    folder = env.folder / "data"
    folder.mkdir()
    with _fresh_store(candidate, env, folder, is_counted=is_counted) as store:
        variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("ROTA_", "BENCH_"))},
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests"))),
            "BENCH_FOLDER": str(env.folder),
            "BENCH_STORE": store,
            "BENCH_BROKER": env.servers.empty_redis() if candidate.has_broker else "",
            "BENCH_PORT": str(free_port()),
            "BENCH_OVER": "http" if candidate.is_http else "",
            "BENCH_PROCESSES": str(candidate.processes or env.sizes.processes),
        }
        if candidate.environment == "node":
            variables["NODE_PATH"] = str(node_modules())
        made = Session(candidate, env, role, variables)
        try:
            made.begin()
            yield made
            made.ask("close")
        finally:
            env.process_group.end(made.workers)
            # None if its environment could not be made.
            host = getattr(made, "host", None)
            env.process_group.end([*made.services, *([host] if host is not None else [])])
            shutil.rmtree(folder)


@contextmanager
def _fresh_store(candidate: Candidate, env: BenchEnvironment, folder: Path, *, is_counted: bool) -> Iterator[str]:
    """Return the address of an empty database of the kind that a system stands on."""
    servers = env.servers
    match candidate.store:
        case "sqlite":
            yield str(folder / "bench.db")
        case "redis":
            yield servers.empty_redis()
        case "postgres":
            dsn = servers.new_postgres_database(is_counted=is_counted)
            try:
                yield dsn
            finally:
                servers.drop_postgres_database(dsn)
        case "mysql":
            url = servers.new_mariadb_database()
            try:
                yield url
            finally:
                servers.drop_mariadb_database(url)

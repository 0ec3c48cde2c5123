"""A private MariaDB for tests: in a folder of its own, on a free port of the loopback, removed after the tests.

The binaries come from Debian's mariadb-server; `tools/servers` installs it where it may. `ROTA_TEST_MARIADB` may name
another `mariadbd` (its `mariadb-install-db` lies beside it, or on the path). It refuses to run as root, so root lends
it to an unprivileged user. A server must not outlive the tests, however they end: a shell holds the other end of a
pipe and ends the server when the pipe closes.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from servers.private_server import clean_up_at_exit, free_port, required

MISSING: Final = "no MariaDB: install Debian's mariadb-server (tools/servers does, as root or with sudo)"
#: A crash of the machine is not in the tests that use these; a crash of the server loses nothing by them.
HASTY: Final[Mapping[str, str]] = {
    "innodb-flush-log-at-trx-commit": "2",
    "innodb-flush-method": "nosync",
    "innodb-doublewrite": "0",
    # Many small databases, made and dropped: a file for each table would be most of the work.
    "innodb-file-per-table": "0",
}
_UNPRIVILEGED: Final = "nobody"
_START_SECONDS: Final = 60.0
#: Where Debian puts daemons, which not every user's path names.
_PATH: Final = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))


@dataclass(slots=True)
class MariadbServer:
    """One server and its folder."""

    binary: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    #: Environment variables of the server beside those of the tests.
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path = field(init=False)
    port: int = field(init=False)
    process: subprocess.Popen[bytes] | None = field(init=False, default=None)
    _cleaner: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rota-mariadb-"))
        self.port = free_port()
        for owner in _owner():
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        self._cleaner = clean_up_at_exit(self.folder, 'pid=$(cat "$0/pid" 2>/dev/null) && kill -KILL "$pid"')
        self._initialise()
        self.start()

    @property
    def data(self) -> Path:
        """Where the server keeps its files."""
        return self.folder / "data"

    @property
    def socket(self) -> Path:
        """Where the server listens beside its port."""
        return self.folder / "s"

    def url(self, database: str, scheme: str = "mysql") -> str:
        """Return how to reach a database."""
        return f"{scheme}://root@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server and wait until it answers; after a crash it repairs itself first."""
        settings = {
            "bind-address": "127.0.0.1",
            "port": str(self.port),
            "socket": str(self.socket),
            "pid-file": str(self.folder / "pid"),
            "datadir": str(self.data),
            # A server that starts clears its folder of temporary tables, those of other servers included.
            "tmpdir": str(self.folder),
            "max-connections": "400",
            "innodb-buffer-pool-size": "128M",
            "innodb-log-file-size": "64M",
            **self.settings,
        }
        flags = [f"--{name}={value}" for name, value in settings.items()]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "--no-defaults", *flags],
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
        """End the server at once, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the server, closing all connections."""
        self._end(signal.SIGTERM)

    def remove(self) -> None:
        """End the server and delete its folder."""
        if self.process is not None:
            self.kill()
        assert self._cleaner.stdin is not None
        self._cleaner.stdin.close()
        self._cleaner.wait()

    def execute(self, *statements: str) -> str:
        """Run statements as an administrator, past our own driver."""
        client = shutil.which("mariadb", path=_PATH) or "mysql"
        command = [client, "--no-defaults", "-uroot", "-S", str(self.socket), "-N", "-B", "-e", "; ".join(statements)]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def _initialise(self) -> None:
        installer = self.binary.with_name("mariadb-install-db")
        if not installer.exists():
            installer = Path(shutil.which("mariadb-install-db", path=_PATH) or installer)
        options = ["--no-defaults", f"--datadir={self.data}", "--auth-root-authentication-method=normal"]
        done = subprocess.run(
            [installer, *options, "--skip-test-db", "--innodb-flush-method=nosync", f"--tmpdir={self.folder}"],
            capture_output=True,
            check=False,
            cwd=self.folder,
            text=True,
            **_demotion(),
        )
        if done.returncode:
            raise RuntimeError(f"mariadb-install-db failed: {done.stdout}{done.stderr}")

    def _wait(self) -> None:
        give_up_at = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > give_up_at:
                raise RuntimeError(f"MariaDB does not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        """Whether the server accepts connections, and is this one by its pid file."""
        assert self.process is not None
        try:
            if (self.folder / "pid").read_text().strip() != str(self.process.pid):
                return False
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                return bool(probe.recv(1))
        except OSError:
            return False


def _owner() -> Sequence[pwd.struct_passwd]:
    """Return the user to run the server as, if it must not run as root."""
    return [pwd.getpwnam(_UNPRIVILEGED)] if os.geteuid() == 0 else []


def _demotion() -> dict[str, Any]:
    return {
        key: value
        for owner in _owner()
        for key, value in (("user", owner.pw_uid), ("group", owner.pw_gid), ("extra_groups", []))
    }


def find_binary() -> Path | None:
    """Find a MariaDB on this machine."""
    found = os.environ.get("ROTA_TEST_MARIADB") or shutil.which("mariadbd", path=_PATH)
    return Path(found) if found else None


def require_binary() -> Path:
    """Find a MariaDB; without one, skip the test, or fail it where a skip would be overlooked."""
    return required(find_binary(), MISSING)


@cache
def shared_server() -> MariadbServer:
    """Return the server that the tests of this process share; it ends with the process."""
    return MariadbServer(require_binary(), HASTY)

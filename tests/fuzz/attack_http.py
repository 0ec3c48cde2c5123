"""Attack a real API server and show what a good client and the server's memory see.

    python -m fuzz.attack_http [trailers] [readers] [sockets] [pages] [--seconds 15]

Each attack runs against its own `rota api` process on a new file, without a token, so that the attacks reach as
far as they can. A good client asks for `/livez` on a new connection each time, at most 50 times a second.

trailers: 10 connections send a chunked request whose trailer fields never end.
readers:  15 connections ask for a list of 500 jobs of 200 kB and never read the answer.
sockets:  5,000 connections from 6 addresses send half a head and then nothing.
pages:    200 connections ask for a page of 8 MB each, read it and ask for the next.
"""

# ruff: noqa: T201 - a script prints
from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import resource
import socket
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from fuzz.api_server import server, watch

Attack = Callable[[int, float], Coroutine[Any, Any, None]]


async def trailers(port: int, seconds: float) -> None:
    """Ten connections send trailer fields without end; each one comes back when it is closed."""
    head = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    more = b"X: y\r\n" * 10_000

    async def attack() -> None:
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    writer.write(head)
                    while not writer.is_closing():
                        writer.write(more)
                        await writer.drain()
                finally:
                    writer.close()
            await asyncio.sleep(0.05)

    await _for_a_while((attack() for _ in range(10)), seconds)


async def readers(port: int, seconds: float) -> None:
    """Fifteen connections request a large list and never read it."""

    async def attack() -> None:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.setblocking(False)  # noqa: FBT003
        with connection:
            await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
            connection.send(b"GET /v1/jobs?limit=500&fields=payload HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await asyncio.sleep(seconds)

    await _for_a_while((attack() for _ in range(15)), seconds)


async def pages(port: int, seconds: float) -> None:
    """Two hundred connections read large pages, one after the other."""
    path = b"GET /v1/jobs?limit=500&fields=payload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    async def attack() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    writer.write(path)
                    while await reader.read(1 << 20):
                        pass
                finally:
                    writer.close()

    await _for_a_while((attack() for _ in range(200)), seconds)


async def sockets(port: int, seconds: float) -> None:
    """Five thousand connections from six addresses send half a head; each comes back when it is closed."""

    async def attack(number: int) -> None:
        await asyncio.sleep(number / 5_000)
        while True:
            with suppress(OSError):
                local = (f"127.0.1.{number % 6}", 0)
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=local)
                try:
                    writer.write(b"GET /livez HT")
                    await reader.read()
                finally:
                    writer.close()
            await asyncio.sleep(1)

    await _for_a_while((attack(number) for number in range(5_000)), seconds)


async def _for_a_while(attacks: Iterable[Coroutine[Any, Any, None]], seconds: float) -> None:
    tasks = [asyncio.create_task(one) for one in attacks]
    await asyncio.wait(tasks, timeout=seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def fill(port: int) -> None:
    """Submit 500 jobs of 200 kB."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for _ in range(500):
        body = json.dumps({"type": "mail", "payload": "x" * 190_000})
        connection.request("POST", "/v1/jobs", body, {"Content-Type": "application/json"})
        assert connection.getresponse().read()
    connection.close()


ATTACKS: dict[str, Attack] = {"trailers": trailers, "readers": readers, "sockets": sockets, "pages": pages}


async def measure(name: str, seconds: float) -> str:
    async with server() as target:
        if name in {"readers", "pages"}:
            await asyncio.to_thread(fill, target.port)
        before = target.megabytes()
        script = [sys.executable, "-m", "fuzz.attack_http", name, "--port", str(target.port), "--seconds", str(seconds)]
        attacker = await asyncio.create_subprocess_exec(*script)
        await asyncio.sleep(2)
        seen = await watch(target, seconds - 2)
        during = target.megabytes()
        await attacker.wait()
        await asyncio.sleep(2)
        return (
            f"{name:9} {len(seen.times):5} answers, {seen.failures:3} failures,"
            f" p50 {seen.percentile(0.5) * 1e3:6.1f} ms, p99 {seen.percentile(0.99) * 1e3:6.1f} ms;"
            f" memory {before} MB before, {seen.peak} peak, {during} at the end, {target.megabytes()} after"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=list(ATTACKS))
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--port", type=int, help="attack this port of this machine, and measure nothing")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for name in options.names:
        if options.port is not None:
            asyncio.run(ATTACKS[name](options.port, options.seconds))
        else:
            print(asyncio.run(measure(name, options.seconds)), flush=True)
    print(f"load: {', '.join(f'{one:.1f}' for one in os.getloadavg())}")


if __name__ == "__main__":
    main()

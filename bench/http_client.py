"""A bare HTTP client: one connection, one request at a time, with as little overhead of the client as Python allows.

As a program (`python -m bench.http_client PORT CONNECTIONS SECONDS [TOKEN [CA]]`) it submits jobs as `submit.lua` does,
for machines without wrk, and prints the same line of JSON. With a token it presents that, and with the file of an
authority it speaks TLS.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from typing import Self

from bench.measure import percentile
from rota._loop import new_loop

JOB = json.dumps(
    {"type": "mail", "payload": {"to": "user@example.com", "subject": "Your report", "body": "x" * 130}}
).encode()


class Connection:
    """One connection to a server on this host."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str = "") -> None:
        self._reader = reader
        self._writer = writer
        self._headers = f"Authorization: Bearer {token}\r\n".encode() if token else b""

    @classmethod
    async def open(cls, port: int, token: str = "", tls: ssl.SSLContext | None = None) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=tls), token)

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send a request, and give the status and the body of its answer."""
        self._writer.write(
            b"%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s"
            % (method.encode(), path.encode(), self._headers, len(body), body)
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        return int(head[9:12]), await self._reader.readexactly(length)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def submits(
    port: int, connections: int, seconds: float, token: str = "", authority: str = ""
) -> dict[str, float]:
    """Submit jobs over so many connections, each one after the other."""
    tls = ssl.create_default_context(cafile=authority) if authority else None
    took: list[float] = []
    errors = 0
    ends_at = time.perf_counter() + seconds

    async def client() -> None:
        nonlocal errors
        connection = await Connection.open(port, token, tls)
        while (begun := time.perf_counter()) < ends_at:
            status, _ = await connection.ask("POST", "/v1/jobs", JOB)
            errors += status != 201
            took.append((time.perf_counter() - begun) * 1000)
        await connection.close()

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(connections)))
    return {
        "requests": len(took),
        "seconds": time.perf_counter() - begun,
        "p50": percentile(took, 0.5),
        "p99": percentile(took, 0.99),
        "errors": errors,
    }


def main() -> None:
    port, connections, seconds, *secured = sys.argv[1:]
    with asyncio.Runner(loop_factory=new_loop) as runner:
        print(json.dumps(runner.run(submits(int(port), int(connections), float(seconds), *secured))))


if __name__ == "__main__":
    main()

"""Send mutated HTTP requests, byte by byte, to a real API server, and check the guarantees of the server.

    python -m fuzz.fuzz_http --seconds 180 --seed 1
    python -m fuzz.fuzz_http --seed 1 --case 4711      sends that one case, and shows it with its answer

What must hold: no answer is a 5xx, nothing is logged as an error, the log grows slowly, memory is bounded, and a good
client beside it is answered within 50 ms in 99 of 100 cases. That client runs on a busy loop itself: what a connection
to an echo on the same loop takes is added to the 50 ms.
"""

# ruff: noqa: T201 - a script prints
from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from fuzz.api_server import Seen, Server, server, watch
from fuzz.http_corpus import case_of

CALLERS: Final = 8
SLOWEST_SECONDS: Final = 0.05
MOST_GROWTH_MEGABYTES: Final = 150
MOST_LOG_BYTES: Final = 20_000
MOST_LOG_BYTES_PER_SECOND: Final = 500
#: How long a caller listens to what it is answered.
_PATIENCE_SECONDS: Final = 0.1


@dataclass
class Report:
    """What was seen; nothing to complain of is a success."""

    cases: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    summary: str = ""


async def fuzz(seed: int, seconds: float, slowest_seconds: float = SLOWEST_SECONDS) -> Report:
    """Send cases for a while."""
    report = Report()
    async with server() as target, await asyncio.start_server(_echo, "127.0.0.1", 0) as control:
        before, numbers, end = target.megabytes(), count(), time.monotonic() + seconds

        async def send_cases() -> None:
            while time.monotonic() < end:
                number = next(numbers)
                _judge(report, seed, number, await send(target.port, case_of(seed, number)))

        port = int(control.sockets[0].getsockname()[1])
        here = Server(port, target.process, target.log)
        callers = asyncio.gather(*(send_cases() for _ in range(CALLERS)))
        seen, usual = await asyncio.gather(watch(target, seconds), watch(here, seconds))
        await callers
        allowed = slowest_seconds + usual.percentile(0.99)
        _hold_to_promises(report, target, seen, allowed, before, seconds)
    return report


async def send(port: int, parts: list[bytes]) -> bytes:
    """Send the parts of a case, and give what is answered in a moment."""
    answer = b""
    with suppress(OSError, TimeoutError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS + len(parts) * 0.002):
                for part in parts:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0.001)
                while more := await reader.read(1_000_000):
                    answer += more
        finally:
            writer.close()
    return answer


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    writer.close()


def _judge(report: Report, seed: int, number: int, answer: bytes) -> None:
    report.cases += 1
    for status in map(int, re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)):
        report.statuses[status] += 1
        if status >= 500:
            report.complaints.append(f"case {number} was answered {status}: --seed {seed} --case {number}")


def _hold_to_promises(report: Report, target: Server, seen: Seen, allowed: float, before: int, seconds: float) -> None:
    log = target.log.read_bytes()
    slowest = seen.percentile(0.99)
    growth = seen.peak - before
    report.summary = (
        f"{report.cases} cases in {seconds:.0f} s; answers {dict(sorted(report.statuses.items()))}; /livez p50"
        f" {seen.percentile(0.5) * 1e3:.1f} ms, p99 {slowest * 1e3:.1f} ms (allowed {allowed * 1e3:.1f});"
        f" memory {before} MB, at most {seen.peak}; log {len(log)} bytes"
    )
    if target.process.poll() is not None:
        report.complaints.append(f"the server ended with {target.process.returncode}")
    if seen.failures:
        report.complaints.append(f"/livez was not answered {seen.failures} times")
    if slowest > allowed:
        report.complaints.append(f"/livez took {slowest * 1e3:.0f} ms in one of a hundred cases")
    if growth > MOST_GROWTH_MEGABYTES:
        report.complaints.append(f"memory grew by {growth} MB")
    if len(log) > MOST_LOG_BYTES + MOST_LOG_BYTES_PER_SECOND * seconds:
        report.complaints.append(f"{len(log)} bytes were logged")
    if b"Traceback" in log or b" ERROR " in log or b'"ERROR"' in log:
        report.complaints.append(f"an error was logged:\n{log.decode(errors='replace')[-3_000:]}")


async def replay(seed: int, number: int) -> None:
    """Send one case and show it."""
    async with server() as target:
        parts = case_of(seed, number)
        print(*(repr(part[:2_000]) for part in parts), "answered:", await send(target.port, parts), sep="\n")
        print(target.log.read_text())


def main() -> int:
    """Run as a script; 1 if a guarantee was violated."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int)
    options = parser.parse_args()
    if options.case is not None:
        asyncio.run(replay(options.seed, options.case))
        return 0
    report = asyncio.run(fuzz(options.seed, options.seconds))
    print(report.summary, *report.complaints[:20], f"load: {os.getloadavg()[0]:.1f}", sep="\n")
    return 1 if report.complaints else 0


if __name__ == "__main__":
    sys.exit(main())

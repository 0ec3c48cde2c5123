"""Figures of a running system: lateness of recurring and delayed jobs, cost of idling, throughput."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from journeys.system import System
from proofs.processes import all_jobs, percentile, server, states, submit


def lateness(system: System, *, seconds: float) -> str:
    """How long after its time a job starts: schedules that fire every second, and jobs with a time of their own."""
    server(system, mode="standalone")
    job = {"type": "echo", "payload": 1, "tags": ["tick"]}
    for number in range(5):
        system.ask("POST", "/v1/schedules", {"name": f"tick-{number}", "cron": "* * * * * *", "job": job})
    now = datetime.now(UTC)
    delayed = [
        {"type": "demo", "payload": {}, "run_at": (now + timedelta(seconds=2 + number / 20)).isoformat()}
        for number in range(int((seconds - 3) * 20))
    ]
    for start in range(0, len(delayed), 1000):
        system.ask("POST", "/v1/jobs:batch", {"jobs": delayed[start : start + 1000]})
    time.sleep(seconds)
    lines = []
    for name, job_type in (("recurring", "echo"), ("delayed", "demo")):
        late = [_late(job) for job in all_jobs(system, job_type) if job["started_at"] is not None]
        shown = [f"{share * 100:g} % {percentile(late, share) * 1000:.1f} ms" for share in (0.5, 0.99)]
        lines.append(f"{name}: {len(late)} starts, {', '.join(shown)}, earliest {min(late) * 1000:.1f} ms")
        assert min(late) >= 0, "started before its time"
        if name == "recurring":
            assert percentile(late, 0.99) <= 0.05, lines
    return "; ".join(lines)


def _late(job: dict[str, str]) -> float:
    started, due = (datetime.fromisoformat(job[name]) for name in ("started_at", "run_at"))
    return (started - due).total_seconds()


def idle(system: System, *, seconds: float) -> str:
    """What a process that has nothing to do costs."""
    process = server(system, mode="standalone")
    time.sleep(3)
    before, begun = _cpu_seconds(process.pid), time.monotonic()
    time.sleep(seconds)
    share = (_cpu_seconds(process.pid) - before) / (time.monotonic() - begun)
    resident = _resident_bytes(process.pid)
    summary = f"{share * 100:.2f} % CPU over {seconds:.0f} s, {resident / 1e6:.1f} MB resident"
    assert share < 0.01, summary
    assert resident < 70e6, summary
    return summary


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def throughput(system: System, *, jobs: int) -> str:
    """How many jobs a second a standalone process takes in by batches and runs to their end."""
    server(system, "--concurrency", "50", mode="standalone")
    begun = time.perf_counter()
    submit(system, jobs, type="echo", payload={"to": "user@example.com"})
    taken = time.perf_counter() - begun
    system.until(lambda: states(system)["completed"], lambda completed: completed >= jobs, seconds=300)
    whole = time.perf_counter() - begun
    assert jobs / whole >= 1000, f"{jobs / whole:.0f} jobs/s"
    return f"{jobs:,} jobs: taken at {jobs / taken:,.0f}/s, completed at {jobs / whole:,.0f}/s end to end"

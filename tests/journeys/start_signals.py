"""Signals during start-up: at every moment of it, a signal must end the process within its grace.

The moments are spread over the CPU time of a start, not over seconds: on a busy machine a process may take ten times as
long, and all signals would come before it has done anything.

Run as ``python -m journeys.start_signals 200`` in the folder `tests` for a long sweep; a short one is a test.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from journeys.system import System, open_system

ROLES = ("standalone", "api", "scheduler", "worker", "store worker")
GRACE_SECONDS = 5
#: Beyond the grace, for a busy machine to end a process in.
SLACK_SECONDS = 10.0
#: A process that has used no CPU time for so long has started.
IDLE_SECONDS = 2.0


@dataclass(frozen=True)
class Ending:
    """One process: when it was signalled, how it ended (None if it did not), and how long that took."""

    role: str
    #: The CPU time that it had used.
    after: float
    number: signal.Signals
    code: int | None
    seconds: float

    @property
    def is_good(self) -> bool:
        # A process that hears no signals yet is ended by the signal itself, or by Python's way to be interrupted, which
        # is 1 before the interpreter is up.
        codes = {0, 130, -self.number} | ({1} if self.number is signal.SIGINT else set())
        return self.code in codes and self.seconds < GRACE_SECONDS + SLACK_SECONDS

    @property
    def is_handled(self) -> bool:
        """Whether the process had its own handlers by then."""
        return self.code == 0


def arguments(role: str, system: System) -> list[str]:
    common = ["--drain-timeout", str(GRACE_SECONDS)]
    match role:
        case "worker":
            return ["worker", "--api-url", system.url, *common]
        case "store worker":
            return ["worker", "--store", system.store, *common]
        case _:
            return [role, "--port", "0", "--store", system.store, *(common if role == "standalone" else [])]


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the CPU time that a process has used, in seconds; without /proc no signal waits for it."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except FileNotFoundError:
        return float("inf")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(process: subprocess.Popen[bytes], cpu: float) -> float:
    """Wait until a process has used so much CPU time, or uses no more because it has started."""
    used, changed_at = 0.0, time.monotonic()
    while used < cpu and time.monotonic() < changed_at + IDLE_SECONDS:
        # The moment is what is varied here: nothing else can be waited for.
        time.sleep(0.002)
        before, used = used, cpu_seconds(process)
        if used > before:
            changed_at = time.monotonic()
    return used


def signalled(system: System, role: str, after: float, number: signal.Signals) -> Ending:
    """Start a process, signal it when it has used some CPU time, and see how it ends."""
    process = system.start(*arguments(role, system))
    used = wait_for(process, after)
    process.send_signal(number)
    sent = time.monotonic()
    code: int | None
    try:
        code = process.wait(GRACE_SECONDS + SLACK_SECONDS)
    except subprocess.TimeoutExpired:
        code = None
        process.kill()
        process.wait()
    system.started.remove(process)
    return Ending(role, used, number, code, time.monotonic() - sent)


def start_seconds(system: System) -> float:
    """Measure how much CPU time a standalone process takes until it works."""
    process = system.start("standalone", "--port", str(system.port), "--store", system.store)
    system.until_up()
    taken = cpu_seconds(process)
    process.send_signal(signal.SIGTERM)
    process.wait()
    system.started.remove(process)
    return taken


def sweep(system: System, count: int, roles: Sequence[str] = ROLES) -> list[Ending]:
    """Spread signals over the start-up of every role, and a little beyond."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in a shell's background job. Processes that are started inherit this, and Python heeds no SIGINT then.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    longest = start_seconds(system) * 1.2
    numbers = (signal.SIGTERM, signal.SIGINT)
    rounds = max(count // len(roles), 1)
    return [
        signalled(system, role, longest * place / rounds, numbers[place % 2 if rounds > 1 else 0])
        for place in range(rounds)
        for role in roles
    ]


def main() -> None:
    """Sweep, and print what came of it."""
    with tempfile.TemporaryDirectory() as folder, open_system(Path(folder)) as system:
        endings = sweep(system, int(sys.argv[1]))
        for role in ROLES:
            own = [one for one in endings if one.role == role]
            codes = Counter(one.code for one in own)
            slowest = max(one.seconds for one in own)
            latest = max(one.after for one in own)
            ends = f"codes {dict(codes)}, slowest end {slowest:.2f} s"
            line = f"{role:13} {len(own)} signals up to {latest:.2f} s of CPU: {ends}"
            print(line)  # noqa: T201 - a report
        bad = [one for one in endings if not one.is_good]
        print(f"{len(endings)} signals, {len(bad)} bad", *bad, sep="\n")  # noqa: T201 - a report


if __name__ == "__main__":
    main()

"""What handlers and processes did: I4 (starts), I7 (no start after a cancel), I12 (SIGTERM), G4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from simulation.checker.court import Court
from simulation.checker.verdict import Record

#: How long after its end a fault may still be felt: a straggling message, a process that is being restarted.
_AFTERMATH_MICROS: Final = 20_000_000
_LONG_AFTERMATH_MICROS: Final = 35_000_000
_GRACE_ROUNDING_MICROS: Final = 1_000


@dataclass(slots=True)
class Watch:
    """Which faults are under way, and which processes have been asked to end."""

    under_way: dict[str, int] = field(default_factory=dict)
    felt_until: int = 0
    has_faults: bool = False
    sigterms: dict[str, Record] = field(default_factory=dict)

    def is_calm(self, since: int) -> bool:
        """Whether nothing has gone wrong since a moment, nor shortly before it."""
        return not any(self.under_way.values()) and self.felt_until < since

    def feel(self, kind: str, at: int) -> None:
        """Take note of a fault that begins, or ends, or is under way."""
        aftermath = _LONG_AFTERMATH_MICROS if kind == "delay" else _AFTERMATH_MICROS
        self.felt_until = max(self.felt_until, at + aftermath)


def on_fault(court: Court, watch: Watch, record: Record) -> None:
    """Keep account of what the nemesis does."""
    kind, phase = record["fault"], record["phase"]
    if kind in {"store_clock", "all"}:
        court.clock_meddled_at = record["at"]
    if kind == "terminate":
        return
    if kind == "all":
        for one, count in watch.under_way.items():
            if count:
                watch.feel(one, record["at"])
        watch.under_way.clear()
        return
    watch.has_faults = True
    watch.feel(kind, record["at"])
    # A failpoint is over when it strikes; what follows from it is its aftermath.
    if kind != "failpoint":
        step = {"begin": 1, "end": -1, "hit": 0}[phase]
        watch.under_way[kind] = max(watch.under_way.get(kind, 0) + step, 0)


def on_start(court: Court, record: Record) -> None:
    """Judge the beginning of a handler."""
    twin = court.jobs.get(record["job"])
    if twin is None:
        return
    twin.trail.append(record["number"])
    twin.starts += 1
    if twin.delivery == "at_most_once" and twin.starts > 1:
        court.blame("I4", f"started {twin.starts} times", record, twin)
    # When the store's clock leaps, leases end that nobody could know to be over.
    if (twin.state == "running" and twin.fence == record["fence"]) or court.clock_meddled_at >= twin.claimed_at:
        return
    if twin.state == "cancelled" and twin.cancel_heard_at is not None:
        court.blame("I7", f"started under fence {record['fence']} after the cancel was acknowledged", record, twin)
    else:
        words = f"started under fence {record['fence']}; it was {twin.state} under {twin.fence}"
        court.blame("I3", words, record, twin)


def on_exit(court: Court, watch: Watch, record: Record) -> None:
    """Judge how a process ended that was asked to."""
    sigterm = watch.sigterms.pop(record["boot"], None)
    if sigterm is None or not watch.is_calm(sigterm["at"]):
        return
    late = record["at"] - sigterm["at"] - sigterm["grace"]
    if late > _GRACE_ROUNDING_MICROS:
        court.blame("I12", f"{record['boot']} ended {late / 1e6:.6f} s after its grace", record)
    for twin in court.jobs.values():
        if twin.state == "running" and twin.holder == record["boot"]:
            court.blame("I12", f"{record['boot']} ended and left it to its lease", record, twin)


def judge_calm(court: Court, records: Sequence[Record]) -> None:
    """Where nothing went wrong, no lease may have been lost."""
    for record in records:
        if record["kind"] != "apply" or record["verb"] != "settle":
            continue
        for told in record["ask"]["settlements"]:
            if told.get("crash") and told["id"] in record["got"]:
                court.blame("G4", "a lease was lost though nothing went wrong", record, court.jobs[told["id"]])

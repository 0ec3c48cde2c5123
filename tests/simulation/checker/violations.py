"""The invariants, and their violations in a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Record = dict[str, Any]

INVARIANTS: Final = {
    "I1": "an acknowledged submission is kept and reaches an end once faults heal",
    "I2": "one job per idempotency key; the same key with another body is refused",
    "I3": "one valid fence per job; fences only grow; a stale write is refused, a valid one is not",
    "I4": "an at-most-once job starts at most once",
    "I5": "attempts stay within max_attempts, crashes included; then the job is dead",
    "I6": "an end is final, except by an operator's recorded act",
    "I7": "after an acknowledged cancel no attempt starts; a running one is told at the next beat",
    "I8": "exactly one job per schedule and fire time, and none missing",
    "I9": "never begun before run_at or given out after expires_at, and in the order of turns",
    "I10": "follow-ups and waiting jobs: made or released with the parent's end, once",
    "I11": "nothing disappears: submitted = waiting + running + finished + pruned",
    "I12": "SIGTERM: out within the grace; what was claimed is finished or handed back, the attempt refunded",
    "I13": "as of each claim no more jobs run or have started than a limit allows, none that is closed or out of order",
    "I14": "a suspended job keeps no attempt, and wakes once: at its time, event or child's end, and not before",
    "I15": "what a job takes from others is what their completed attempts have returned",
    "I16": "a workflow is stored, cancelled and failed as a whole; what was skipped or replaced never starts",
    "G4": "without a fault no lease is lost",
    "G5": "no lease is taken because the store's clock was set: it has lapsed by the steady clock too",
    "G6": "no schedule is silent because the store's clock was set back",
    "G7": "a job that all its limits allow is not left behind, and keys take turns",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation: of which invariant, in which words, and the numbers of the records that show it."""

    invariant: str
    message: str
    records: tuple[int, ...] = ()
    job: int | None = None

    def __str__(self) -> str:
        return f"{self.invariant}: {self.message}" + (f" (job {self.job})" if self.job is not None else "")


@dataclass(slots=True)
class Report:
    """All violations of a run, in the order in which they came to light."""

    violations: list[Violation] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was violated."""
        return not self.violations

    @property
    def violated(self) -> list[str]:
        """Name the violated invariants, the first to come to light first."""
        return list(dict.fromkeys(violation.invariant for violation in self.violations))

    def excerpt(self, records: Sequence[Record], violation: Violation) -> list[Record]:
        """Give the sub-history of a violation: the records that touched its job, and the faults in between."""
        if not violation.records:
            return []
        wanted = set(violation.records)
        first, last = min(wanted), max(wanted)
        return [
            record
            for record in records[first : last + 1]
            if record["number"] in wanted or record["kind"] in {"fault", "boot", "sigterm", "exit"}
        ]

"""The checker: reads a history and a dump of the store, and reports violations of the invariants.

It imports nothing of Rota. It knows what is guaranteed: it replays the store's own order of events on its own model of
every job, compares the answers of the store with the right ones, and at the end compares its model with what is left.
One pass, linear in the length of the history.

Each violation names the invariant and has the records of the job that it is about.
"""

from __future__ import annotations

from simulation.checker.history_check import check
from simulation.checker.violations import INVARIANTS, Report, Violation

__all__ = ["INVARIANTS", "Report", "Violation", "check"]

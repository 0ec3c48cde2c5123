"""The judge: reads a history and a dump of the store, and says of each invariant whether it held.

It knows nothing of Rota's code and imports none of it. What it knows is what was promised (RELIABILITY.md, section 1):
it replays the store's own order of events on a twin of every job, compares what the store answered with what it had
promised to answer, and in the end compares its twins with what is left. One pass, linear in the length of the history.

Each finding names the invariant and carries the sub-history of the job it is about.
"""

from __future__ import annotations

from simulation.checker.judge import check
from simulation.checker.verdict import INVARIANTS, Finding, Verdict

__all__ = ["INVARIANTS", "Finding", "Verdict", "check"]

"""Bugs, planted one at a time, to see that the checker finds them.

Each mutant is a context manager that changes something in one wrong way, and names the invariant that has to notice.
Most are bugs that other task queues or Rota have had. Those in
`stores`, `limits` and most of `workflows` are found by the models, those in `loops` and `http` are planted in Rota's
own code and found by it.
"""

from __future__ import annotations

from simulation.mutants import http, limits, loops, stores, workflows
from simulation.mutants.planting import MUTANTS, Mutant

__all__ = ["MUTANTS", "Mutant", "http", "limits", "loops", "stores", "workflows"]

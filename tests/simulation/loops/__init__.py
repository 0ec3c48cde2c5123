"""The real loops on the simulated stage: Rota's own engine, worker, scheduler and client, unchanged.

What surrounds them is not real: the store is behind a network that fails, handlers follow scripts and write down when
they begin and end, and here and there on the way stand failpoints, at which the process may die. All of it goes through
seams that the loops have anyway: the store's port, the worker's source, the clock, the rng.
"""

from __future__ import annotations

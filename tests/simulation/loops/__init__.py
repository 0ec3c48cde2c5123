"""Rota's own engine, worker, scheduler and client in the simulation, unchanged.

Their environment is simulated: the store is behind a network that fails, handlers follow scripts and record when they
begin and end, and there are failpoints at which the process may crash. All of it is passed in as in production: the
store's port, the worker's source, the clock, the random numbers.
"""

from __future__ import annotations

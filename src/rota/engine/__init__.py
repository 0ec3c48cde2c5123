"""The verbs: what can be done with jobs and schedules, arranged from the core's decisions and the store's writes.

The engine decides nothing that the core could decide, and keeps nothing that the store could keep. Any number of
engines work on one store.
"""

from __future__ import annotations

from rota.engine.engine import Engine

__all__ = ["Engine"]

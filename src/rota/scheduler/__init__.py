"""Keeping the time: what is due starts on time, what was lost is found, what is past is forgotten.

Any number of schedulers may run; none of them is needed for correctness, one is needed for progress.
"""

from __future__ import annotations

from rota.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]

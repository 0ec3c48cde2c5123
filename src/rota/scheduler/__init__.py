"""The scheduler: fires schedules, promotes due jobs, reaps lapsed leases, expires and prunes jobs, fills a broker.

Any number of schedulers may run. None is needed for correctness; one is needed for progress.
"""

from __future__ import annotations

from rota.scheduler.loop import Scheduler

__all__ = ["Scheduler"]

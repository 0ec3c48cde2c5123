"""The routes of the API; each module has the handlers and the descriptions of one family."""

from __future__ import annotations

from rota.api.router import Route
from rota.api.routes import (
    cluster,
    dead_letters,
    documents,
    events,
    health,
    jobs_actions,
    jobs_read,
    jobs_submit,
    leases,
    legacy_worker,
    limits,
    queues,
    schedules,
    stats,
    steps,
    workers,
)

#: All routes that are served.
ROUTES: tuple[Route, ...] = (
    *jobs_submit.ROUTES,
    *jobs_read.ROUTES,
    *jobs_actions.ROUTES,
    *leases.ROUTES,
    *steps.ROUTES,
    *legacy_worker.ROUTES,
    *schedules.ROUTES,
    *dead_letters.ROUTES,
    *queues.ROUTES,
    *limits.ROUTES,
    *workers.ROUTES,
    *stats.ROUTES,
    *events.ROUTES,
    *health.ROUTES,
    *cluster.ROUTES,
    *documents.ROUTES,
)

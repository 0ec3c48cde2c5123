"""The routes of the API; each module has the handlers and the descriptions of one family."""

from __future__ import annotations

from rota.api.router import Route
from rota.api.routes import (
    cluster,
    dead_letters,
    documents,
    events,
    health,
    history,
    inputs,
    jobs_actions,
    jobs_read,
    jobs_search,
    jobs_submit,
    leases,
    legacy_worker,
    locks,
    operations,
    overview,
    queues,
    schedules,
    stats,
    steps,
    tokens,
    workers,
)

#: All routes that are served.
ROUTES: tuple[Route, ...] = (
    *jobs_submit.ROUTES,
    *jobs_read.ROUTES,
    *jobs_search.ROUTES,
    *jobs_actions.ROUTES,
    *leases.ROUTES,
    *steps.ROUTES,
    *inputs.ROUTES,
    *legacy_worker.ROUTES,
    *schedules.ROUTES,
    *dead_letters.ROUTES,
    *operations.ROUTES,
    *queues.ROUTES,
    *workers.ROUTES,
    *stats.ROUTES,
    *history.ROUTES,
    *overview.ROUTES,
    *events.ROUTES,
    *health.ROUTES,
    *cluster.ROUTES,
    *locks.ROUTES,
    *tokens.ROUTES,
    *documents.ROUTES,
)

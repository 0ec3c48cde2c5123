"""The routes, family by family: each module describes what its routes take and give beside what they do."""

from __future__ import annotations

from rota.api.routes import (
    acting,
    cluster,
    dead_letters,
    documents,
    events,
    health,
    leases,
    looking,
    queues,
    schedules,
    seed_worker,
    stats,
    steps,
    submitting,
    workers,
)
from rota.api.table import Route

#: All of them. What is not in here is not served.
ROUTES: tuple[Route, ...] = (
    *submitting.ROUTES,
    *looking.ROUTES,
    *acting.ROUTES,
    *leases.ROUTES,
    *steps.ROUTES,
    *seed_worker.ROUTES,
    *schedules.ROUTES,
    *dead_letters.ROUTES,
    *queues.ROUTES,
    *workers.ROUTES,
    *stats.ROUTES,
    *events.ROUTES,
    *health.ROUTES,
    *cluster.ROUTES,
    *documents.ROUTES,
)

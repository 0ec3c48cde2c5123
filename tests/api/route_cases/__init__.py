"""One case for each route, in modules like those of the routes."""

from __future__ import annotations

from api.route_cases import access, breakers, deployment, jobs, limits, namespaces, schedules, webhooks, work, workflows
from api.route_cases.route_case import CASES, RouteClient

__all__ = [
    "CASES",
    "RouteClient",
    "access",
    "breakers",
    "deployment",
    "jobs",
    "limits",
    "namespaces",
    "schedules",
    "webhooks",
    "work",
    "workflows",
]

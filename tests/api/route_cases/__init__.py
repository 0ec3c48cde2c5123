"""One case for each route, in modules like those of the routes."""

from __future__ import annotations

from api.route_cases import access, breakers, jobs, limits, namespaces, schedules, webhooks, whole, work, workflows
from api.route_cases.asking import CASES, Ask

__all__ = [
    "CASES",
    "Ask",
    "access",
    "breakers",
    "jobs",
    "limits",
    "namespaces",
    "schedules",
    "webhooks",
    "whole",
    "work",
    "workflows",
]

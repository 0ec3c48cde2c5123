"""One case for each route, in modules like those of the routes."""

from __future__ import annotations

from api.route_cases import jobs, limits, schedules, whole, work
from api.route_cases.asking import CASES, Ask

__all__ = ["CASES", "Ask", "jobs", "limits", "schedules", "whole", "work"]

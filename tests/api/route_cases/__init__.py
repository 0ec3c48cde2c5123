"""One case for each route, in modules like those of the routes."""

from __future__ import annotations

from api.route_cases import access, jobs, schedules, whole, work
from api.route_cases.asking import CASES, Ask

__all__ = ["CASES", "Ask", "access", "jobs", "schedules", "whole", "work"]

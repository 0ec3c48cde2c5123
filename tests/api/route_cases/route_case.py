"""One case for each route: a request over a socket, its answer, and what it changed in the store.

A case is registered under each path that it tests. It sends its requests with `RouteClient`, which has method and path.
Other data is prepared with the client of the environment, or read from the store.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx

from api.environment import ApiEnvironment
from rota.api.router import Route
from rota.coordination.local import LocalCoordinator
from rota.core.ids import JobId, to_number
from rota.core.job import Job


@dataclass
class RouteClient:
    """Sends requests to one route, and checks the status."""

    env: ApiEnvironment
    client: httpx.AsyncClient
    route: Route
    coordinator: LocalCoordinator
    count: int = 0

    def path(self, name: str = "") -> str:
        return re.sub(r"\{\w+\}", name, self.route.path)

    async def __call__(self, status: int = 200, name: str = "", **sent: Any) -> Any:  # noqa: ANN401 - JSON
        self.count += 1
        response = await self.client.request(self.route.method, self.path(name), **sent)
        assert response.status_code == status, response.text
        is_json = "json" in response.headers.get("content-type", "")
        return response.json() if is_json and self.route.path not in {"/docs", "/"} else response.text


Case = Callable[[ApiEnvironment, RouteClient], Awaitable[None]]
CASES: dict[str, Case] = {}


def of(*routes: str) -> Callable[[Case], Case]:
    """List a case under the routes that it exercises: method and path."""

    def listed(case: Case) -> Case:
        for route in routes:
            assert route not in CASES, f"{route} is listed twice"
            CASES[route] = case
        return case

    return listed


def of_jobs(method: str, ending: str) -> Callable[[Case], Case]:
    """List a case under the path of jobs and its older names."""
    return of(*(f"{method} {root}{ending}" for root in ("/v1/jobs", "/jobs", "/tasks")))


async def stored(env: ApiEnvironment, job_id: str) -> Job:
    (job,) = await env.store.get([JobId(to_number(job_id))])
    return job


async def state(env: ApiEnvironment, job_id: str) -> str:
    return (await stored(env, job_id)).state.value


async def ledger_actions(env: ApiEnvironment) -> list[tuple[str, str]]:
    """Return the actions in the ledger, all of which came through the API."""
    entries = await env.store.ledger()
    assert {entry.surface for entry in entries} <= {"api"}, entries
    return [(entry.action, entry.target) for entry in entries]


async def stream_lines(send: RouteClient, name: str = "") -> list[str]:
    """Read the first events of a stream: their kinds and data."""
    send.count += 1
    async with send.client.stream(send.route.method, send.path(name)) as response:
        assert response.status_code == 200, response.status_code
        assert response.headers["content-type"].startswith("text/event-stream")
        found = []
        async for line in response.aiter_lines():
            found.append(line)
            if line.startswith("data: "):
                return found
    return found

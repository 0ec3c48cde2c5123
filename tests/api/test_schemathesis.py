"""Schemathesis reads the description and sends what it allows and what it forbids.

No answer is a 5xx, none is other than described, and what is described as wrong is refused. A bounded number of cases
from a fixed seed, against a server of its own; whoever asks to wait is answered soon.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    negative_data_rejection,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.environment import api_environment, served
from rota.api import ApiSettings, Limits
from rota.api.router import EVENT_STREAM, Route
from rota.api.routes import ROUTES
from rota.core.errors import InvalidRequest

CHECKS: tuple[Any, ...] = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
CASES = int(os.environ.get("ROTA_SCHEMATHESIS_CASES", "6"))
#: A stream has no end that one could wait for.
FINITE = [route for route in ROUTES if EVENT_STREAM not in route.responses.values()]
#: What is wrong by the description can only be said where something is taken.
ASKED = [
    *((route, GenerationMode.POSITIVE) for route in FINITE),
    *((route, GenerationMode.NEGATIVE) for route in FINITE if route.body is not None),
]


def check_sleep(payload: object) -> None:
    if payload is not None and not isinstance(payload, dict):
        raise InvalidRequest("payload: an object", field="payload")


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[schemathesis.BaseSchema]:
    """Serve on a loop of its own: schemathesis sends its requests from this thread."""
    place: Path = tmp_path_factory.mktemp("schemathesis") / "rota.db"
    addresses: list[str] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    done = asyncio.Event()

    async def run() -> None:
        limits = Limits(longest_wait=timedelta(milliseconds=5))
        checks = ApiSettings(limits=limits, payload_checks={"sleep": check_sleep})
        async with api_environment(checks, str(place)) as env, served(env.api) as address:
            for _ in range(3):
                await env.dead()
            await env.client.post("/v1/schedules", json={"name": "nightly", "cron": "@daily", "job": {}})
            addresses.append(address)
            ready.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    ready.wait(30)
    try:
        yield schemathesis.openapi.from_url(f"{addresses[0]}/openapi.json")
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()


@pytest.mark.parametrize(("route", "mode"), ASKED, ids=lambda value: getattr(value, "path", value))
def test_what_is_answered_is_what_is_described(
    schema: schemathesis.BaseSchema, route: Route, mode: GenerationMode
) -> None:
    operation = schema[route.path][route.method]
    checks = (*CHECKS, negative_data_rejection) if mode is GenerationMode.NEGATIVE else CHECKS

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=CASES, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    def check(case: Case[Any]) -> None:
        response = case.call(timeout=20)
        # Schemathesis does not count 413 as a refusal, though the longest wrong texts are just that.
        kept = CHECKS if response.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE else checks
        case.validate_response(response, checks=list(kept))

    check()

"""Each test gets an environment of its own."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import httpx
import pytest

from api.environment import ApiEnvironment, api_environment, served


@pytest.fixture(autouse=True)
def unlogged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have servers keep no access log, as they do outside of pytest, which listens to every logger."""
    monkeypatch.setattr(logging.getLogger("uvicorn.access"), "hasHandlers", lambda: False)


@pytest.fixture
async def env() -> AsyncIterator[ApiEnvironment]:
    async with api_environment() as env:
        yield env


@pytest.fixture
def client(env: ApiEnvironment) -> httpx.AsyncClient:
    return env.client


@pytest.fixture
async def remote(env: ApiEnvironment) -> AsyncIterator[httpx.AsyncClient]:
    async with served(env.api) as address, httpx.AsyncClient(base_url=address, timeout=20) as client:
        yield client

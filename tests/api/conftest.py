"""Each test gets an environment of its own."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import httpx
import pytest

from api.staging import Stage, served, staged


@pytest.fixture(autouse=True)
def unlogged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have servers keep no access log, as they do outside of pytest, which listens to every logger."""
    monkeypatch.setattr(logging.getLogger("uvicorn.access"), "hasHandlers", lambda: False)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with staged() as stage:
        yield stage


@pytest.fixture
def client(stage: Stage) -> httpx.AsyncClient:
    return stage.client


@pytest.fixture
async def remote(stage: Stage) -> AsyncIterator[httpx.AsyncClient]:
    async with served(stage.api) as address, httpx.AsyncClient(base_url=address, timeout=20) as client:
        yield client

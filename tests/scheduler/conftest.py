"""Each test gets an engine of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from engine.staging import Bench, bench_in_memory


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_in_memory() as bench:
        yield bench

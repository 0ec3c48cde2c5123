from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from worker.environment import WorkerEnvironment, worker_environment


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[WorkerEnvironment]:
    async with worker_environment(tmp_path / "rota.db") as env:
        yield env

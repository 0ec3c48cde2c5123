from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from worker.staging import Stage, stage_at


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage_at(tmp_path / "rota.db") as stage:
        yield stage

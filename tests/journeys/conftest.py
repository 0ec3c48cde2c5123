from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from journeys.stage import Stage, staged


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path) as one:
        yield one

"""The order of the tests: those that take long first, so that all test processes come to an end together."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

_TESTS: Final = Path(__file__).parent
_LONG: Final = ("crash", "simulation", "journeys", "conformance/model")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring the long ones to the front, and leave everything else as it was."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    folder = item.path.relative_to(_TESTS).parent.as_posix()
    return next((rank for rank, name in enumerate(_LONG) if folder.startswith(name)), len(_LONG))

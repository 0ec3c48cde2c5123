"""Using the time in which the server works: what can be computed then need not be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Meanwhile(Generic[T]):
    """Something that is computed as soon as the loop has nothing better to do: when our next packet has been sent."""

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute = compute
        self._found: list[T] = []
        asyncio.get_running_loop().call_soon(self._try)

    def result(self) -> T:
        """Give what was computed, or compute it now; what goes wrong with it is raised here and nowhere else."""
        if not self._found:
            self._found.append(self._compute())
        return self._found[0]

    def _try(self) -> None:
        with suppress(Exception):
            self.result()

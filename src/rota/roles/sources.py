"""Where work comes from when the store is at hand, for a process that is told so in JSON: a worker's companion."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rota.ports.faces import WorkSource
from rota.runtime import connect


@asynccontextmanager
async def source_of(argument: Any) -> AsyncIterator[WorkSource]:  # noqa: ANN401 - JSON
    """Link up with the store that `{"url": …}` names."""
    link = await connect(argument["url"])
    try:
        yield link.source
    finally:
        await link.close()

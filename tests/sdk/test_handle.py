"""Handles that wait while the API or the store is unavailable."""

from __future__ import annotations

import asyncio

import pytest

from rota.core.errors import Unavailable
from rota.sdk import handle
from rota.sdk.handle import end_of, until_available


class Outage:
    """Fails a number of times, then answers."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    async def ask(self) -> str:
        self.left -= 1
        if self.left >= 0:
            raise Unavailable("away")
        return "there"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "_PAUSE_SECONDS", 0.001)


async def test_a_wait_with_an_end_goes_on_while_the_api_is_away() -> None:
    assert await until_available(Outage(5).ask, end_of("10s")) == "there"


async def test_a_wait_without_an_end_raises_at_once() -> None:
    outage = Outage(1)
    with pytest.raises(Unavailable):
        await until_available(outage.ask, end_of(None))
    assert outage.left == 0


async def test_a_wait_that_ends_during_an_outage_raises_it() -> None:
    begun = asyncio.get_running_loop().time()
    with pytest.raises(Unavailable):
        await until_available(Outage(10**6).ask, end_of(0.05))
    assert asyncio.get_running_loop().time() - begun < 5

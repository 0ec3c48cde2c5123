"""Supervised loops continue after any error."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from rota.supervision import HEALTHY_SECONDS, LONGEST_PAUSE_SECONDS, supervised
from simulation.loop import run


def test_a_loop_that_raises_is_run_again_after_longer_and_longer_pauses(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        begins: list[float] = []

        async def duty() -> None:
            begins.append(loop.time())
            if len(begins) < 12:
                raise RuntimeError("nobody expected this")

        await supervised("the duty", duty, rng=lambda: 0.5)
        return begins

    begins = run(story())
    pauses = [round(later - earlier, 3) for earlier, later in itertools.pairwise(begins)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.1
    assert pauses[-1] == pytest.approx(LONGEST_PAUSE_SECONDS)
    assert "the duty failed unexpectedly" in caplog.text
    assert "Traceback" in caplog.text


def test_a_loop_that_ran_well_for_long_is_run_again_at_once() -> None:
    async def story() -> float:
        loop = asyncio.get_running_loop()
        runs = 0

        async def duty() -> None:
            nonlocal runs
            runs += 1
            if runs == 12:
                return
            await asyncio.sleep(HEALTHY_SECONDS if runs == 11 else 0)
            raise RuntimeError("nobody expected this")

        begun = loop.time()
        await supervised("the duty", duty, rng=lambda: 0.5)
        return loop.time() - begun

    assert run(story()) < HEALTHY_SECONDS + 10 * LONGEST_PAUSE_SECONDS


async def test_a_loop_that_is_cancelled_ends() -> None:
    running = asyncio.ensure_future(supervised("the duty", asyncio.Event().wait))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

"""The plain built-in types: `sleep`, and those that take anything, `demo`, `echo` and `default`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.worker.builtin.checking import fields_of, kind_of
from rota.worker.context import current

DEMO_STEPS: Final = 3


def check_sleep(payload: object) -> None:
    """Refuse what `sleep` could not do."""
    _duration(payload)


def _duration(payload: object) -> timedelta:
    value = fields_of(payload, ("duration",)).get("duration")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        told = "is needed" if value is None else f"must be seconds or text such as '5s', not {kind_of(value)}"
        raise InvalidRequest(f"payload.duration: {told}", field="payload.duration")
    return parse_duration(value, field="payload.duration")


async def sleep(payload: Any) -> dict[str, float]:  # noqa: ANN401 - any JSON
    """Sleep for `duration`; a cancel ends it at once."""
    seconds = _duration(payload).total_seconds()
    await asyncio.sleep(seconds)
    return {"slept_seconds": seconds}


def check_anything(payload: object) -> None:
    """Take every payload."""


async def echo(payload: Any) -> Any:  # noqa: ANN401 - any JSON
    """Give the payload back."""
    return payload


async def default(payload: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Record the payload and succeed: what jobs without a type do."""
    return {"recorded": payload}


async def demo(payload: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Show what a job can show: progress, log lines and a result."""
    job = current()
    for step in range(1, DEMO_STEPS + 1):
        job.log(f"step {step} of {DEMO_STEPS}")
        job.progress(step, DEMO_STEPS, "showing how it is done")
        await asyncio.sleep(0)
    return {"received": payload, "attempt": job.attempt}

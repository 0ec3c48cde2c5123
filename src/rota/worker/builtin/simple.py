"""The simple built-in job types: `sleep`, and `demo`, `echo` and `default`, which accept any payload."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.worker.builtin.payloads import fields_of, kind_of
from rota.worker.context import current

DEMO_STEPS: Final = 3


def check_sleep(payload: object) -> None:
    """Refuse a payload that `sleep` cannot run."""
    _duration(payload)


def _duration(payload: object) -> timedelta:
    value = fields_of(payload, ("duration",)).get("duration")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        problem = "is required" if value is None else f"must be seconds or text such as '5s', not {kind_of(value)}"
        raise InvalidRequest(f"payload.duration: {problem}", field="payload.duration")
    return parse_duration(value, field="payload.duration")


async def sleep(payload: Any) -> dict[str, float]:  # noqa: ANN401 - any JSON
    """Sleep for `duration`; a cancel ends it at once."""
    seconds = _duration(payload).total_seconds()
    await asyncio.sleep(seconds)
    return {"slept_seconds": seconds}


def check_anything(payload: object) -> None:
    """Accept every payload."""


async def echo(payload: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return the payload."""
    return payload


async def default(payload: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Return the payload as a record: the handler of jobs without a type."""
    return {"recorded": payload}


async def demo(payload: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Demonstrate progress, log lines and a result."""
    job = current()
    for step in range(1, DEMO_STEPS + 1):
        job.log(f"step {step} of {DEMO_STEPS}")
        job.progress(step, DEMO_STEPS, "showing how it is done")
        await asyncio.sleep(0)
    return {"received": payload, "attempt": job.attempt}

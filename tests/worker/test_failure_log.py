"""What a worker logs of an attempt that failed."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from datetime import timedelta

import pytest

from core.builders import job
from rota.core.settlement import JobError
from rota.worker.outcomes import MOST_A_MINUTE, FailureLog, last_frame
from worker.environment import WorkerEnvironment


def charge(amount: int) -> None:
    raise ValueError(f"cannot charge {amount}")


def failing() -> None:
    json.loads("{")


def in_a_thread() -> None:
    charge(7)


async def on_the_loop() -> None:
    await asyncio.sleep(0)
    charge(7)


async def too_slow() -> None:
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("handler", "parts"),
    [
        (in_a_thread, ("with ValueError: cannot charge 7 at ", "test_failure_log.py:", " in charge")),
        (on_the_loop, ("with ValueError: cannot charge 7 at ", "test_failure_log.py:", " in charge")),
        (failing, ("JSONDecodeError: Expecting property name", "test_failure_log.py:", " in failing")),
        (too_slow, ("with HandlerTimedOut: ran past its limit of 0.05 s",)),
    ],
)
async def test_a_failed_attempt_is_one_warning_with_message_and_the_users_last_frame(
    env: WorkerEnvironment, caplog: pytest.LogCaptureFixture, handler: object, parts: tuple[str, ...]
) -> None:
    async with env.worker(handler):  # type: ignore[arg-type]
        name = handler.__name__  # type: ignore[attr-defined]
        limit = timedelta(seconds=0.05) if handler is too_slow else None
        await env.end_of(await env.submit(name, max_attempts=1, timeout=limit))
    (record,) = [one for one in caplog.records if one.levelno == logging.WARNING and one.name == "rota.worker"]
    line = record.getMessage()
    assert f"({name}) failed in attempt 1 of 1" in line
    assert all(part in line for part in parts), line
    assert record.job_type == name  # type: ignore[attr-defined]


def test_a_storm_of_failures_is_counted_and_not_written(caplog: pytest.LogCaptureFixture) -> None:
    now = time.monotonic()
    failures = FailureLog(clock=lambda: now)
    for _ in range(MOST_A_MINUTE + 70):
        failures.write(job(), JobError("ValueError", "boom"))
    assert len(caplog.records) == MOST_A_MINUTE
    now += 60
    failures.write(job(), JobError("ValueError", "boom"))
    assert caplog.records[-1].getMessage().endswith("(and 70 others like it)")


def test_the_last_frame_is_of_the_users_code_where_there_is_any() -> None:
    assert last_frame("") == ""
    assert last_frame('Traceback\n  File "/srv/app/tasks.py", line 3, in send\n    x\nValueError') == (
        "/srv/app/tasks.py:3 in send"
    )

"""A worker whose own loops fail unexpectedly goes on working."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rota.core.lifecycle import State
from rota.worker.deadlines import Watchdog
from rota.worker.fetcher import Fetcher
from rota.worker.heartbeat import LoopHeartbeat
from rota.worker.reporter import OutcomeReporter
from worker.environment import WorkerEnvironment, eventually


@pytest.mark.parametrize(
    ("part", "method"), [(Fetcher, "_fetch"), (OutcomeReporter, "_write"), (Watchdog, "check"), (LoopHeartbeat, "beat")]
)
async def test_a_loop_of_a_worker_that_fails_unexpectedly_is_run_again(
    env: WorkerEnvironment, part: type, method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker stopped and its process ended with it."""
    do = getattr(part, method)
    calls = 0

    def fail_once(self: object, *arguments: Any) -> Any:  # noqa: ANN401 - as the method
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("nobody expected this")
        return do(self, *arguments)

    monkeypatch.setattr(part, method, fail_once)

    def mail() -> None:
        """Do nothing."""

    async with env.worker(mail, beat=timedelta(milliseconds=50)) as worker:
        job = await env.end_of(await env.submit("mail"))
        await eventually(lambda: calls >= 2)
        assert not worker.is_draining
    assert job.state is State.COMPLETED
    assert "nobody expected this" in caplog.text

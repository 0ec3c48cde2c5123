"""System E's streams, as its document sets them up: `REDIS_URL`, a stream's name, a group's name."""

from __future__ import annotations

from typing import Any

import pytest

from journeys.stage import Stage
from proofs.cast import alive
from servers.valkey import ValkeyServer, require_binary


@pytest.mark.parametrize("stage", ["postgres"], indirect=True)
def test_work_goes_through_the_streams_and_past_them_while_redis_is_away(stage: Stage) -> None:
    server = ValkeyServer(require_binary())
    # Without a scheme, as the document has it.
    stage.told = {
        "POSTGRES_DSN": stage.store,
        "REDIS_URL": f"127.0.0.1:{server.port}",
        "REDIS_STREAM_NAME": "tasks",
        "REDIS_GROUP_NAME": "crew",
    }
    try:
        stage.start("api", "--port", str(stage.port))
        stage.until_up()
        stage.start("scheduler")
        stage.start("worker", "--worker-id", "w1", "--concurrency", "2")
        stage.until(lambda: alive(stage), lambda names: names == {"w1"})
        stage.until(lambda: stage.ask("GET", "/health"), lambda form: form["broker_health"])

        def handed_over() -> int:
            run(stage, 5)
            groups: list[dict[str, Any]] = []
            for stream in server.ask("KEYS", "tasks:*:echo:*"):
                groups += server.ask("XINFO", "GROUPS", stream)
            return sum(group["entries-read"] or 0 for group in groups if group["name"] == "crew")

        assert stage.until(handed_over, lambda count: count > 0)
        server.kill()
        run(stage, 20)
        # The problems are looked for once a second at most, so the status may be a second behind the lamp.
        stage.until(
            lambda: stage.ask("GET", "/health"), lambda form: not form["broker_health"] and form["status"] == "degraded"
        )
        server.start()
        stage.until(lambda: stage.ask("GET", "/health"), lambda form: form["status"] == "healthy")
        assert stage.until(handed_over, lambda count: count > 0)
    finally:
        server.remove()


def run(stage: Stage, number: int) -> None:
    """Submit jobs and wait until they are done."""
    jobs = [{"type": "echo", "payload": one} for one in range(number)]
    ids = [item["id"] for item in stage.ask("POST", "/v1/jobs:batch", {"jobs": jobs})["items"]]
    for one in ids:
        stage.until(lambda: stage.job(one)["status"], lambda status: status == "completed")  # noqa: B023 - at once

"""Redis Streams with the older variables: `REDIS_URL`, the name of a stream, the name of a group."""

from __future__ import annotations

from typing import Any

import pytest

from journeys.system import System
from proofs.processes import alive
from servers.valkey import ValkeyServer, require_binary


@pytest.mark.parametrize("system", ["postgres"], indirect=True)
def test_work_goes_through_the_streams_and_past_them_while_redis_is_away(system: System) -> None:
    server = ValkeyServer(require_binary())
    # Without a scheme, as the document has it.
    system.variables = {
        "POSTGRES_DSN": system.store,
        "REDIS_URL": f"127.0.0.1:{server.port}",
        "REDIS_STREAM_NAME": "tasks",
        "REDIS_GROUP_NAME": "crew",
    }
    try:
        system.start("api", "--port", str(system.port))
        system.until_up()
        system.start("scheduler")
        system.start("worker", "--worker-id", "w1", "--concurrency", "2")
        system.until(lambda: alive(system), lambda names: names == {"w1"})
        system.until(lambda: system.ask("GET", "/health"), lambda form: form["broker_health"])

        def handed_over() -> int:
            run(system, 5)
            groups: list[dict[str, Any]] = []
            for stream in server.ask("KEYS", "tasks:*:echo:*"):
                groups += server.ask("XINFO", "GROUPS", stream)
            return sum(group["entries-read"] or 0 for group in groups if group["name"] == "crew")

        assert system.until(handed_over, lambda count: count > 0)
        server.kill()
        run(system, 20)
        # The problems are looked for once a second at most, so the status may be a second behind the lamp.
        system.until(
            lambda: system.ask("GET", "/health"),
            lambda form: not form["broker_health"] and form["status"] == "degraded",
        )
        server.start()
        system.until(lambda: system.ask("GET", "/health"), lambda form: form["status"] == "healthy")
        assert system.until(handed_over, lambda count: count > 0)
    finally:
        server.remove()


def run(system: System, number: int) -> None:
    """Submit jobs and wait until they are done."""
    jobs = [{"type": "echo", "payload": one} for one in range(number)]
    ids = [item["id"] for item in system.ask("POST", "/v1/jobs:batch", {"jobs": jobs})["items"]]
    for one in ids:
        system.until(lambda: system.job(one)["status"], lambda status: status == "completed")  # noqa: B023 - at once

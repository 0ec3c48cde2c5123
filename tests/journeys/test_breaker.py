"""A circuit breaker with real workers, on the store and over HTTP, and a dependency that counts its calls."""

from __future__ import annotations

from pathlib import Path

from journeys.system import open_system
from proofs.breaker import Scale, prove


def test_few_calls_reach_a_dependency_that_is_down_and_all_jobs_complete(tmp_path: Path) -> None:
    with open_system(tmp_path, "breaker.db") as system:
        prove(system, Scale(down_seconds=4, open_seconds=1, jobs_per_second=12))

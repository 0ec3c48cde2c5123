"""Limits with real workers, some of which are killed, counted by a log outside the store."""

from __future__ import annotations

from pathlib import Path

from journeys.system import open_system
from proofs.limits import Scale, prove


def test_killed_workers_exceed_no_limit(tmp_path: Path) -> None:
    with open_system(tmp_path, "limits.db") as system:
        prove(system, Scale(seconds=4, workers=3, keys=30))

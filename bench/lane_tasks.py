"""As many tasks as `ROTA_BENCH_LANES` says, for `bench.lanes`. Started as `rota worker --app bench.lane_tasks:app`."""

from __future__ import annotations

import os

from rota import Rota

app = Rota()


async def _nothing() -> int:
    return 1


for _number in range(int(os.environ.get("ROTA_BENCH_LANES", "1"))):
    app.task(name=f"lane-{_number}")(_nothing)

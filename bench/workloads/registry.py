"""Registry of the workloads, by the names that `WORKLOADS=` takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bench.workloads.protocol import Workload
from bench.workloads.w1_submit import Submit
from bench.workloads.w2_drain import Drain
from bench.workloads.w3_start import Start
from bench.workloads.w4_lateness import Lateness
from bench.workloads.w5_idle import Idle
from bench.workloads.w6_kill import Kill

_ALL: Final[tuple[Workload, ...]] = (Submit(), Drain(), Start(), Lateness(), Idle(), Kill())
WORKLOADS: Final[Mapping[str, Workload]] = {workload.name: workload for workload in _ALL}

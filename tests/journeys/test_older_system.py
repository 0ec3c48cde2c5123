"""Commands and requests of an older system work literally, on PostgreSQL, Redis and etcd."""

from __future__ import annotations

from journeys.system import System
from proofs.full_deployment import cluster, walk


def test_commands_of_an_older_system_work_literally(system: System) -> None:
    with cluster(system):
        walk(system)

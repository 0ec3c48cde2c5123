"""Commands and requests of an older system work literally, on PostgreSQL, Redis and etcd."""

from __future__ import annotations

from journeys.system import System
from proofs.document import cluster, walk


def test_the_lines_of_the_fifth_document_work_literally(system: System) -> None:
    with cluster(system):
        walk(system)

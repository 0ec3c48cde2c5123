"""Registry of the measured systems: name, client module, store, environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Environment = Literal["rota", "python", "node"]
Store = Literal["sqlite", "postgres", "mysql", "redis"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A system that can be measured, on a store."""

    name: str
    #: The module of its client, or the script.
    client: str
    store: Store
    environment: Environment = "python"
    #: Whether Redis Streams is the broker.
    has_broker: bool = False
    #: Whether clients and workers use the HTTP API only.
    is_http: bool = False
    #: How many worker processes drain; 0 for as many as the run has.
    processes: int = 0

    @property
    def is_peer(self) -> bool:
        return self.environment != "rota"


def _rota(name: str, store: Store, *, has_broker: bool = False, is_http: bool = False, processes: int = 0) -> Candidate:
    return Candidate(name, "bench.systems.rota_client", store, "rota", has_broker, is_http, processes)


#: Rota, by the names that `STORES=` takes.
STORES: Final = {
    one.name: one
    for one in (
        _rota("sqlite", "sqlite"),
        # One file has one writer at a time, so one process is fastest.
        _rota("sqlite-one", "sqlite", processes=1),
        _rota("postgres", "postgres"),
        _rota("mysql", "mysql"),
        _rota("redis", "postgres", has_broker=True),
        _rota("http", "sqlite", is_http=True),
    )
}
#: The others, by the names that `PEERS=` takes.
PEERS: Final = {
    one.name: one
    for one in (
        Candidate("celery", "bench.systems.peers.celery_redis", "redis"),
        Candidate("dramatiq", "bench.systems.peers.dramatiq_redis", "redis"),
        Candidate("rq", "bench.systems.peers.rq_redis", "redis"),
        Candidate("huey", "bench.systems.peers.huey_sqlite", "sqlite"),
        Candidate("huey-redis", "bench.systems.peers.huey_redis", "redis"),
        Candidate("taskiq", "bench.systems.peers.taskiq_redis", "redis"),
        Candidate("procrastinate", "bench.systems.peers.procrastinate_postgres", "postgres"),
        Candidate("pgqueuer", "bench.systems.peers.pgqueuer_postgres", "postgres"),
        Candidate("graphile", "graphile.js", "postgres", "node"),
        Candidate("bullmq", "bullmq.js", "redis", "node"),
    )
}

"""Which systems there are, what each stands on, and in which environment it lives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Environment = Literal["rota", "python", "node"]
Store = Literal["sqlite", "postgres", "mysql", "redis"]


@dataclass(frozen=True, slots=True)
class Contender:
    """A system on a store."""

    name: str
    #: The module of its client, or the script.
    client: str
    store: Store
    environment: Environment = "python"
    #: Whether Redis carries the work beside the store.
    has_broker: bool = False
    #: Whether clients and workers know nothing but an API.
    is_http: bool = False
    #: How many worker processes drain; 0 for as many as the run has.
    processes: int = 0

    @property
    def is_peer(self) -> bool:
        return self.environment != "rota"


def _rota(name: str, store: Store, *, has_broker: bool = False, is_http: bool = False, processes: int = 0) -> Contender:
    return Contender(name, "bench.systems.rota_client", store, "rota", has_broker, is_http, processes)


#: Rota, by the names that `STORES=` takes.
STORES: Final = {
    one.name: one
    for one in (
        _rota("sqlite", "sqlite"),
        # One file has one writer at a time; so one process is how it is best used.
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
        Contender("celery", "bench.systems.peers.celery_redis", "redis"),
        Contender("dramatiq", "bench.systems.peers.dramatiq_redis", "redis"),
        Contender("rq", "bench.systems.peers.rq_redis", "redis"),
        Contender("huey", "bench.systems.peers.huey_sqlite", "sqlite"),
        Contender("huey-redis", "bench.systems.peers.huey_redis", "redis"),
        Contender("taskiq", "bench.systems.peers.taskiq_redis", "redis"),
        Contender("procrastinate", "bench.systems.peers.procrastinate_postgres", "postgres"),
        Contender("pgqueuer", "bench.systems.peers.pgqueuer_postgres", "postgres"),
        Contender("graphile", "graphile.js", "postgres", "node"),
        Contender("bullmq", "bullmq.js", "redis", "node"),
    )
}

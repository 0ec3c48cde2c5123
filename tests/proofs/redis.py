"""Redis is killed, emptied and loses keys under load, again and again; only Redis is restarted.

As `outage` does it to databases. Beside what is lost, what ran more than once is counted: nothing here kills a worker,
so a second attempt would mean that a job was handed to two.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import redis

from journeys.system import open_system
from proofs.outage import prove
from proofs.processes import all_jobs
from servers.postgres import PostgresServer, require_binaries
from servers.valkey import ValkeyServer, require_binary

STREAM = "jobs"


def strikes(server: ValkeyServer) -> dict[str, Callable[[], None]]:
    """Return the faults of Redis."""

    def restart() -> None:
        server.kill()
        server.start()

    def streams() -> list[str]:
        found: list[str] = server.ask("KEYS", f"{STREAM}:*:echo:*")
        return found

    def each(*words: str) -> Callable[[], None]:
        def run() -> None:
            for stream in streams():
                with suppress(redis.ResponseError):
                    server.ask(*(stream if word == "*" else word for word in words))

        return run

    def delete_consumers() -> None:
        for stream in streams():
            with suppress(redis.ResponseError):
                for one in server.ask("XINFO", "CONSUMERS", stream, "workers"):
                    server.ask("XGROUP", "DELCONSUMER", stream, "workers", one["name"])

    return {
        "killed and started empty": restart,
        "FLUSHALL": lambda: server.ask("FLUSHALL"),
        "streams deleted": each("DEL", "*"),
        "streams trimmed": each("XTRIM", "*", "MAXLEN", "0"),
        "groups destroyed": each("XGROUP", "DESTROY", "*", "workers"),
        "consumers deleted": delete_consumers,
    }


def redis_dies(folder: Path, *, times: int) -> str:
    """Cause each fault, one after the other, as often as given."""
    store, server = PostgresServer(require_binaries(), {}), ValkeyServer(require_binary())
    ways = strikes(server)
    order = cycle(ways.values())

    def strike() -> None:
        next(order)()

    try:
        with open_system(folder, store.dsn()) as system:
            system.variables = {"REDIS_URL": f"127.0.0.1:{server.port}", "REDIS_STREAM_NAME": STREAM}
            summary = prove(system, f"Redis harmed ({', '.join(ways)})", strike, times=times * len(ways))
            again = [job["id"] for job in all_jobs(system, "echo") if job["attempts"] > 1]
            assert not again, f"{summary}; {len(again)} ran more than once"
            return f"{summary}; none ran more than once"
    finally:
        server.remove()
        store.remove()

"""The store on PostgreSQL: unfinished jobs in one small table, finished ones in a table partitioned by day.

Concurrent calls are batched; claims skip locked rows instead of waiting; the server's clock decides about leases. Any
number of processes may share a database. They notify each other over LISTEN and NOTIFY, as a hint: nothing is lost
without it.
"""

from __future__ import annotations

from rota.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]

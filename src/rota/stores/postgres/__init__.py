"""The store on PostgreSQL: unfinished jobs in one small table, finished ones beside it in parts by day.

Calls that come together are served together; rows that another process holds are stepped over, never waited for; the
server's clock judges leases. Any number of processes may share a database. Hearing of each other's work is a hint over
LISTEN and NOTIFY, and nothing is lost without it.
"""

from __future__ import annotations

from rota.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]

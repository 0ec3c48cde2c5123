"""The store on MariaDB (10.6 and newer) or MySQL 8.

A job has a row in `rota_job` and one in the narrow table of its state, clustered by the key it is scanned by; see
`schema.sql`. Calls that can share a transaction are batched. Transactions that end in a deadlock or a lock wait timeout
are run again. Any number of processes may share a database.
"""

from __future__ import annotations

from rota.stores.mysql.store import MysqlStore

__all__ = ["MysqlStore"]

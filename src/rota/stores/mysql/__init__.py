"""The store on MariaDB (10.6 and newer) or MySQL 8.

Jobs stand in narrow tables, each clustered by what it is scanned by; see `schema.sql`. Calls that can share a
transaction are merged by a desk; every transaction that the server gives up is run again. Any number of processes may
share a database.
"""

from __future__ import annotations

from rota.stores.mysql.store import MysqlStore

__all__ = ["MysqlStore"]

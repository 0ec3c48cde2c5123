"""The store on one SQLite file (or in memory): write-ahead log, every commit on stable storage.

One thread writes and gathers all that waits into one commit; others read beside it. Several processes may share a
file: SQLite's lock decides who writes, and nobody waits long.
"""

from __future__ import annotations

from rota.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]

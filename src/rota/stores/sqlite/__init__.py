"""The store on one SQLite file (or in memory): write-ahead log, every commit synced to the disk.

One thread writes and commits all waiting operations together (`writer`); other threads read. Several processes may
share a file: SQLite's write lock lets one of them write at a time, for a short time.
"""

from __future__ import annotations

from rota.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]

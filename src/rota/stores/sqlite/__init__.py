"""The store on one SQLite file (or in memory): write-ahead log, every commit synced to the disk.

One thread writes and commits all waiting operations together (`writer`); other threads read. Several processes may
share a file: SQLite's write lock lets one of them write at a time, for a short time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota._lazy import lazy_names

if TYPE_CHECKING:
    from rota.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]

# A program that uses another store, or only defines tasks, needs a few small modules of this one.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, {"store": ["SqliteStore"]})

"""Store sessions: how the verbs that the stores share run statements, whatever the database.

A statement has the same name and the same parameters in each store's `sql/*.sql`; its text is the store's own. SQLite's
session never suspends: its verbs run on the thread of a connection, without an event loop, by `run_sync`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from rota.stores.rows import Row

T = TypeVar("T")
#: What an `async def` returns.
Running: TypeAlias = Coroutine[Any, Any, T]


class StoreSession(Protocol):
    """Runs named statements in one transaction, of the store or of a caller, or on one snapshot."""

    async def select(self, name: str, /, **parameters: object) -> Sequence[Row]:
        """Run a statement and return its rows."""
        ...

    async def select_by(self, name: str, keys: Sequence[int] | Sequence[str], /, **parameters: object) -> Sequence[Row]:
        """Run a statement for a list, its parameter `keys`, and return its rows. A long list may be split."""
        ...

    async def change(self, name: str, /, **parameters: object) -> int:
        """Run a statement and return how many rows it changed."""
        ...

    async def change_by(self, name: str, keys: Sequence[int] | Sequence[str], /, **parameters: object) -> int:
        """Run a statement for a list, its parameter `keys`, and return how many rows it changed."""
        ...

    async def put(self, name: str, /, **parameters: object) -> bool:
        """Insert or replace a row; return False if its key is taken, or its version no longer holds."""
        ...

    async def append(self, name: str, /, **parameters: object) -> None:
        """Insert a row with the next number; run the transaction again if another one took the number."""
        ...

    async def change_rows(self, name: str, rows: Sequence[Mapping[str, object]], /, **parameters: object) -> None:
        """Run a statement for each row of parameters; `parameters` are the same for all rows."""
        ...

    async def lock(self, name: str, /, **parameters: object) -> None:
        """Run a statement that locks; it is empty in a store that needs no lock there."""
        ...

    def note_work(self) -> None:
        """Note that the transaction made work of which other processes have to be notified."""
        ...

    def note_times(self) -> None:
        """Note that the transaction set a time for upkeep of which other processes have to be notified."""
        ...

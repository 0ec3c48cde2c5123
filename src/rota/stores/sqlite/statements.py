"""The SQL statements of this store by name, from `sql/*.sql`."""

from __future__ import annotations

from typing import Final

from rota.stores.statements import statements_of

statement: Final = statements_of(__package__)

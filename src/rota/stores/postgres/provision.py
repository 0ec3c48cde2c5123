"""Provisioning of namespaces: a schema of its own, `prod_acme` beside `prod`, `rota_acme` beside tables without one."""

from __future__ import annotations

from typing import Final

from rota.core.errors import InvalidRequest
from rota.stores.postgres.connection import Connector, split_schema
from rota.stores.postgres.database import Database
from rota.stores.postgres.migrations import applied
from rota.stores.postgres.session import Session

_LONGEST: Final = 63


def url_of_namespace(url: str, name: str) -> str:
    """Return the URL of a namespace's store."""
    bare, schema = split_schema(url)
    own = f"{schema or 'rota'}_{name.replace('-', '_')}"
    if len(own) > _LONGEST:
        raise InvalidRequest(f"name: the schema {own!r} would be longer than {_LONGEST} characters", field="name")
    return f"{bare}{'&' if '?' in bare else '?'}schema={own}"


async def exists(url: str) -> bool:
    """Return whether a schema has the tables of a store."""
    database = Database(Connector(url))
    try:
        return bool(await database.read(applied))
    finally:
        await database.close()


async def drop(url: str) -> None:
    """Drop the schema of a store with all that is in it; one that is gone already does no harm."""
    database = Database(Connector(url))
    try:
        await database.write(_drop, database.connector.schema or "")
    finally:
        await database.close()


async def _drop(session: Session, schema: str) -> None:
    await session.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE', seconds=600.0)

"""Array types are read from the server once per process, not once per connection."""

from __future__ import annotations

import pytest
from asyncpg.connection import LoggedQuery

from rota.stores.postgres import connection as connection_module
from rota.stores.postgres.connection import Connector
from servers.pgbouncer import shared_pooler

ARRAYS = "SELECT $1::bigint[], $2::bool[]"
GIVEN = ([1, 2], [True])


async def asked(dsn: str, *statements: str) -> list[str]:
    """Run statements with arrays on a new connection, and return the other statements that the server got."""
    connection = await Connector(dsn)()
    queries: list[str] = []

    def note(query: LoggedQuery) -> None:
        queries.append(query.query)

    connection.add_query_logger(note)
    try:
        async with connection.transaction():
            for statement in statements:
                arguments = GIVEN[: statement.count("$")]
                assert tuple(await connection.fetchrow(statement, *arguments) or ()) == arguments
    finally:
        await connection.close()
    return [query for query in queries if "typeinfo_tree" in query]


@pytest.mark.parametrize("is_pooled", [False, True], ids=["direct", "pooled"])
async def test_connections_share_what_they_learn_about_types(
    dsn: str, monkeypatch: pytest.MonkeyPatch, *, is_pooled: bool
) -> None:
    place = shared_pooler().dsn(dsn) if is_pooled else dsn
    monkeypatch.setattr(connection_module, "_known_types", {})
    assert len(await asked(place, "SELECT $1::bigint[]")) == 1
    assert len(await asked(place, ARRAYS)) == 1, "of one it knew, the other it asked for"
    assert await asked(place, ARRAYS, "SELECT $1::bigint[]") == []


async def test_a_type_of_this_database_alone_is_asked_for_each_time(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_known_types", {})
    connector = Connector(dsn)
    first = await connector()
    await first.execute("CREATE TYPE shade AS ENUM ('dark', 'light')")
    try:
        assert await first.fetchval("SELECT $1::shade[]", ["dark"]) == ["dark"]
        second = await connector()
        assert await second.fetchval("SELECT $1::shade[]", ["light"]) == ["light"]
        await second.close()
        assert all(number < 10_000 for number in connection_module._known_types)
    finally:
        await first.execute("DROP TYPE shade")
        await first.close()

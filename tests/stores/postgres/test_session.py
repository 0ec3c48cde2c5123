"""Numbers as array literals."""

from __future__ import annotations

import asyncpg
import pytest

from rota.stores.postgres.session import numbers


@pytest.mark.parametrize("values", [[], [1], [-(2**63), 0, 2**63 - 1]])
async def test_the_server_reads_what_was_written(dsn: str, values: list[int]) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("SELECT * FROM unnest($1::text::bigint[])", numbers(values))
    finally:
        await connection.close()
    assert [row[0] for row in rows] == values

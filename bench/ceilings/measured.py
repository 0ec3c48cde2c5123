"""C1 and C2 of a store, measured on the ground of a run."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg

from bench.ceilings import mysql, postgres, sqlite
from bench.ground import Ground
from bench.systems.catalogue import Store
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.location import location_of

_SINGLE: Final = 1_000
_BATCHED: Final = 20_000


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What the bare driver reaches, per second."""

    single_commits: float
    batched_rows: float


def ceiling_of(store: Store, ground: Ground) -> Ceiling | None:
    """Measure the ceilings of a store; None for one that has none."""
    # Fewer where less is measured: the ceilings shall not take longer than what they are held against.
    share = min(1.0, ground.sizes.jobs / 10_000)
    single, batched = max(int(_SINGLE * share), 50), max(int(_BATCHED * share) // 500 * 500, 1_000)
    match store:
        case "sqlite":
            return _of_sqlite(single, batched)
        case "postgres":
            dsn = ground.servers.new_postgres_database()
            try:
                return asyncio.run(_of_postgres(dsn, single, batched))
            finally:
                ground.servers.drop_postgres_database(dsn)
        case "mysql":
            url = ground.servers.new_mariadb_database()
            try:
                return asyncio.run(_of_mysql(url, single, batched))
            finally:
                ground.servers.drop_mariadb_database(url)
        case "redis":
            return None


def _of_sqlite(single: int, batched: int) -> Ceiling:
    with tempfile.TemporaryDirectory() as folder:
        bare = sqlite.Bare(Path(folder) / "bare.db")
        try:
            return Ceiling(bare.single_commits(single), bare.batched_rows(batched))
        finally:
            bare.connection.close()


async def _of_postgres(dsn: str, single: int, batched: int) -> Ceiling:
    connection = await asyncpg.connect(dsn)
    try:
        bare = postgres.Bare(connection)
        await bare.prepare()
        return Ceiling(await bare.single_commits(single), await bare.batched_rows(batched))
    finally:
        await connection.close()


async def _of_mysql(url: str, single: int, batched: int) -> Ceiling:
    # Its bare table has the columns of ours, so ours must be there.
    await (await MysqlStore.open(url)).close()
    bare = await mysql.Bare.open(location_of(url))
    try:
        await bare.create()
        return Ceiling(await bare.single_commits(single), await bare.batched_rows(batched))
    finally:
        await bare.close()

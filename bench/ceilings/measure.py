"""Measures C1 and C2 of a store: single commits and batched rows of a bare driver, in the environment of a run."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import asyncpg

from bench.ceilings import mysql, postgres, sqlite
from bench.environment import BenchEnvironment
from bench.systems.registry import Store
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.location import location_of

_SINGLE: Final = 1_000
_BATCHED: Final = 20_000


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What the bare driver reaches, per second."""

    single_commits: float
    batched_rows: float


class Bare(Protocol):
    """The bare driver at work on a database of its own; both say how many rows it did in a second."""

    def single_commits(self, count: int, /) -> float: ...

    def batched_rows(self, count: int, /) -> float: ...


class _Awaitable(Protocol):
    def single_commits(self, count: int, /) -> Awaitable[float]: ...

    def batched_rows(self, count: int, /) -> Awaitable[float]: ...


class _Awaited:
    """A driver that is made for a loop, on a loop of its own."""

    def __init__(self, bare: _Awaitable, runner: asyncio.Runner) -> None:
        self._bare = bare
        self._runner = runner

    def single_commits(self, count: int, /) -> float:
        return self._runner.run(_result(self._bare.single_commits(count)))

    def batched_rows(self, count: int, /) -> float:
        return self._runner.run(_result(self._bare.batched_rows(count)))


async def _result(wanted: Awaitable[float]) -> float:
    return await wanted


def ceiling_of(store: Store, env: BenchEnvironment) -> Ceiling | None:
    """Measure the ceilings of a store; None for one that has none."""
    # Fewer where less is measured: the ceilings shall not take longer than what they are held against.
    share = min(1.0, env.sizes.jobs / 10_000)
    single, batched = max(int(_SINGLE * share), 50), max(int(_BATCHED * share) // 500 * 500, 1_000)
    with bare_on(store, env) as bare:
        return None if bare is None else Ceiling(bare.single_commits(single), bare.batched_rows(batched))


@contextmanager
def bare_on(store: Store, env: BenchEnvironment) -> Iterator[Bare | None]:
    """Open the bare driver on a store; None on one that has no ceilings."""
    match store:
        case "sqlite":
            with tempfile.TemporaryDirectory() as folder:
                bare = sqlite.Bare(Path(folder) / "bare.db")
                try:
                    yield bare
                finally:
                    bare.connection.close()
        case "postgres":
            yield from _on_postgres(env)
        case "mysql":
            yield from _on_mysql(env)
        case "redis":
            yield None


def _on_postgres(env: BenchEnvironment) -> Iterator[Bare]:
    dsn = env.servers.new_postgres_database()
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(dsn))
        try:
            bare = postgres.Bare(connection)
            runner.run(bare.prepare())
            yield _Awaited(bare, runner)
        finally:
            runner.run(connection.close())
            env.servers.drop_postgres_database(dsn)


def _on_mysql(env: BenchEnvironment) -> Iterator[Bare]:
    url = env.servers.new_mariadb_database()
    with asyncio.Runner() as runner:
        bare = runner.run(_opened_mysql(url))
        try:
            yield _Awaited(bare, runner)
        finally:
            runner.run(bare.close())
            env.servers.drop_mariadb_database(url)


async def _opened_mysql(url: str) -> mysql.Bare:
    # Its bare table has the columns of ours, so ours must be there.
    await (await MysqlStore.open(url)).close()
    bare = await mysql.Bare.open(location_of(url))
    await bare.create()
    return bare

"""The measures of long lists and of many lanes, at their smallest: they fill the tables as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import lanes
from bench.list_latency import Meter, lists, run
from rota.core.time import from_micros
from servers import mariadb, postgres


@contextmanager
def _database(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'lists.db'}"
        return
    server: postgres.PostgresServer | mariadb.MariadbServer
    server = postgres.shared_server() if kind == "postgres" else mariadb.shared_server()
    if isinstance(server, mariadb.MariadbServer):
        server.execute("CREATE DATABASE lists")
        yield server.url("lists")
        server.execute("DROP DATABASE lists")
        return
    runner = asyncio.Runner()
    database = postgres.new_database(server)
    try:
        yield runner.run(database.__aenter__())
    finally:
        runner.run(database.__aexit__(None, None, None))
        runner.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_every_list_is_measured(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with _database(kind, tmp_path) as url:
        asyncio.run(run(url, (1_000, 200, 200), Meter()))
    shown = {line[:30].strip(): line[30:].split() for line in capsys.readouterr().out.splitlines()}
    assert shown.keys() >= {*lists(from_micros(0)), "count of all", "count since the last", "groups of dead letters"}
    assert {name: shown[name][4] for name in ("all", "status=completed", "status=dead")} == {
        "all": "100",
        "status=completed": "100",
        "status=dead": "2",
    }


def test_lanes_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(lanes.measure(f"sqlite:///{tmp_path / 'lanes.db'}", jobs=200, rounds=1))
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown] == ["lanes", "1", "20", "100"]

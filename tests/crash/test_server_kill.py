"""MariaDB is killed under load: nothing that was acknowledged is lost, and processes continue without a restart."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from crash.server_kill import Report, Run
from rota.stores.mysql import MysqlStore
from servers.mariadb import MariadbServer, require_binary

KILLS = 2
STEADY_SECONDS = 1.0


async def killed(settings: Mapping[str, str], kills: int) -> Report:
    server = MariadbServer(require_binary(), settings)
    try:
        server.execute("CREATE DATABASE rota")
        return await Run(server, seed=1).drive(lambda: MysqlStore.open(server.url("rota")), kills, STEADY_SECONDS)
    finally:
        server.remove()


@pytest.mark.timeout(120)
async def test_a_killed_server_loses_nothing_that_was_acknowledged_and_is_used_again() -> None:
    report = await killed({}, KILLS)
    assert report.violations == []
    assert report.kills == KILLS
    assert all(report.rate(back, 10.0) > 0 for back in report.returns)


@pytest.mark.timeout(120)
async def test_a_server_that_forgets_is_found_out() -> None:
    """The verification is not blind: with a log that is hardly ever written, a kill does lose what was acknowledged."""
    report = await killed({"innodb-flush-log-at-trx-commit": "0", "innodb-flush-log-at-timeout": "2700"}, 1)
    assert any("lost" in violation for violation in report.violations)

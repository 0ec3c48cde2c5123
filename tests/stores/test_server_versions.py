"""Servers that look like PostgreSQL or MySQL are refused by name, with the reason."""

from __future__ import annotations

import pytest

from rota.core.errors import InvalidRequest
from rota.stores.server_versions import refuse_unsuitable


@pytest.mark.parametrize(
    ("server", "text", "names"),
    [
        ("MySQL", "8.0.11-TiDB-v7.5.1", "TiDB.*SKIP LOCKED"),
        ("PostgreSQL", "CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)", "CockroachDB.*NOTIFY"),
        ("PostgreSQL", "PostgreSQL 15.2-YB-2025.1.0.0-b0 on x86_64-pc-linux-gnu", "YugabyteDB"),
        ("PostgreSQL", "PostgreSQL 16.5 (Aurora DSQL)", "Aurora DSQL"),
        ("PostgreSQL", "PostgreSQL 13.14 on x86_64-pc-linux-gnu", "PostgreSQL 13.14, which is too old"),
        ("MySQL", "5.7.44-log", "MySQL 5.7.44, which is too old"),
        ("MySQL", "8.0.0-dmr", "too old"),
        ("MariaDB", "5.5.5-10.5.23-MariaDB-1:10.5", "MariaDB 10.5.23, which is too old"),
    ],
)
def test_an_unsuitable_server_is_refused_with_the_reason(server: str, text: str, names: str) -> None:
    with pytest.raises(InvalidRequest, match=names) as refusal:
        refuse_unsuitable(server, text)
    assert refusal.value.field == "store"


@pytest.mark.parametrize(
    ("server", "text"),
    [
        ("PostgreSQL", "PostgreSQL 14.0 (Debian 14.0-1) on x86_64-pc-linux-gnu, compiled by gcc"),
        ("PostgreSQL", "PostgreSQL 18beta1"),
        ("MariaDB", "5.5.5-10.6.4-MariaDB"),
        ("MariaDB", "11.8.3-MariaDB-0+deb13u1"),
        ("MySQL", "8.0.1-dmr"),
        ("MySQL", "8.4.3"),
    ],
)
def test_a_server_that_is_new_enough_is_taken(server: str, text: str) -> None:
    refuse_unsuitable(server, text)

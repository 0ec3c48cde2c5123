"""A URL of PostgreSQL that cannot be read is refused with a remedy, and without its password."""

from __future__ import annotations

import pytest

from rota.core.errors import InvalidRequest
from rota.stores.postgres import PostgresStore


@pytest.mark.parametrize(
    "url",
    [
        "postgres://rota:s3cret@@:x/y",
        "postgresql://rota:s3cret@db:x/rota",
        "postgresql://rota:s3cret/5@db/rota",
        "postgresql://rota:s3cret@[::1/rota",
        "postgresql://rota:s3cret@db/rota?sslmode=s0me",
    ],
)
async def test_a_url_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(
        InvalidRequest, match=r"store: .* cannot be read.*; write postgresql://user:password@"
    ) as refusal:
        await PostgresStore.open(url)
    assert "s3cret" not in str(refusal.value)
    assert refusal.value.field == "store"

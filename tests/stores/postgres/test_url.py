"""A URL of PostgreSQL that cannot be read is refused with a remedy, and without its password."""

from __future__ import annotations

import pytest

from rota.core.errors import InvalidRequest
from rota.stores.postgres import PostgresStore
from rota.stores.postgres.connection import Connector
from servers.postgres import shared_server


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


@pytest.mark.parametrize("parameter", ["ssslmode=require", "work_mem=plenty", "server_version=9"])
async def test_a_parameter_that_the_server_refuses_is_no_outage(parameter: str) -> None:
    """It was tried again until the start timeout, as if the server were away."""
    name = parameter.partition("=")[0]
    url = f"{shared_server().dsn()}?{parameter}"
    with pytest.raises(InvalidRequest, match=f"store: .* cannot be read by the server: .*{name}"):
        await PostgresStore.open(url)


@pytest.mark.parametrize("option", ["sslrootcert", "sslcert", "sslkey"])
def test_a_file_in_a_url_that_cannot_be_read_is_named(option: str) -> None:
    """It was "[Errno 2] No such file or directory", as if the server were away, without a name."""
    with pytest.raises(InvalidRequest, match=f"store: {option}='nofile.pem' in the URL is not a file"):
        Connector(f"postgresql://u:hunter2@h/d?sslmode=verify-full&{option}=nofile.pem")

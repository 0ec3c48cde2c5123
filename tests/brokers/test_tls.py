"""`rediss://` trusts only the configured authorities. The server of the tests has no TLS, so a proxy adds it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from brokers.redis_environment import TYPES, redis_environment
from servers.certificates import sign_itself
from servers.valkey import ValkeyServer, shared_valkey


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for the loopback that has signed itself, and its key, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    sign_itself(folder)
    return folder


@asynccontextmanager
async def proxy(server: ValkeyServer, certificate: Path) -> AsyncIterator[int]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(carry(reader, back), carry(there, writer))

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


async def test_a_server_that_is_vouched_for_is_used(certificate: Path) -> None:
    async with proxy(shared_valkey(), certificate) as port:
        url = f"rediss://127.0.0.1:{port}?ssl_ca_certs={certificate / 'cert.pem'}"
        async with redis_environment(shared_valkey(), url) as env:
            broker = await env.broker()
            assert broker.is_up
            await broker.take(("default",), TYPES, 1)
            assert env.server.ask("EXISTS", f"{env.stream}:queues")


async def test_a_server_that_nobody_vouches_for_is_as_good_as_away(certificate: Path) -> None:
    async with (
        proxy(shared_valkey(), certificate) as port,
        redis_environment(shared_valkey(), f"rediss://127.0.0.1:{port}") as env,
    ):
        broker = await env.broker()
        assert not broker.is_up
        assert await broker.take(("default",), TYPES, 1) is None

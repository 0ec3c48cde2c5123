"""TLS on a real socket: versions, authorities, client certificates, renewal, and what is not TLS."""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from api.environment import ApiEnvironment, served, until
from rota.api import Timeouts
from rota.api.server.tls import Handshake, ServerTls
from rota.client.client import connect
from rota.core.errors import InvalidRequest, Unavailable
from rota.ports.store import JobQuery
from rota.tls import ClientFiles, ServerFiles
from servers.certificates import Authority

QUICK = Timeouts(head=timedelta(seconds=0.3), linger=timedelta(seconds=0.3), grace=timedelta(seconds=2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def ours(folder: Path) -> Authority:
    return Authority(folder, "ours")


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Authority:
    return Authority(folder, "theirs")


def files_of(authority: Authority, name: str, *, days: int = 2, client_ca: str = "") -> ServerFiles:
    cert, key = authority.sign(name, days=days)
    return ServerFiles(str(cert), str(key), client_ca)


async def asked(address: str, tls: ClientFiles) -> int:
    """Ask by the client that workers and programs use; give how many jobs there are."""
    client = connect([address], tls=tls)
    try:
        return len(await client.find(JobQuery(limit=1)))
    finally:
        await client.close()


async def refused(address: str, tls: ClientFiles) -> str:
    with pytest.raises(Unavailable) as caught:
        await asked(address, tls)
    return str(caught.value)


async def test_a_client_that_trusts_the_authority_is_served(env: ApiEnvironment, ours: Authority) -> None:
    async with served(env.api, tls=ServerTls(files_of(ours, "server"))) as address:
        assert await asked(address, ClientFiles(str(ours.cert))) == 0
        assert await asked(address.replace("127.0.0.1", "localhost"), ClientFiles(str(ours.cert))) == 0


async def test_a_client_refuses_what_it_does_not_trust(env: ApiEnvironment, ours: Authority, theirs: Authority) -> None:
    async with served(env.api, tls=ServerTls(files_of(ours, "server"))) as address:
        assert "CERTIFICATE_VERIFY_FAILED" in await refused(address, ClientFiles(str(theirs.cert)))
        assert "CERTIFICATE_VERIFY_FAILED" in await refused(address, ClientFiles())
    async with served(env.api, tls=ServerTls(files_of(ours, "expired", days=-1))) as address:
        assert "expired" in await refused(address, ClientFiles(str(ours.cert)))


async def test_a_client_refuses_the_certificate_of_another_host(env: ApiEnvironment, ours: Authority) -> None:
    cert, key = ours.sign("elsewhere", valid_for="DNS:example.com")
    async with served(env.api, tls=ServerTls(ServerFiles(str(cert), str(key)))) as address:
        assert "certificate is not valid for '127.0.0.1'" in await refused(address, ClientFiles(str(ours.cert)))


async def test_plain_http_to_a_port_with_tls_is_refused_with_a_remedy(env: ApiEnvironment, ours: Authority) -> None:
    async with served(env.api, tls=ServerTls(files_of(ours, "server"))) as address:
        assert "write https://" in await refused(address.replace("https:", "http:"), ClientFiles())


async def test_a_server_asks_clients_for_a_certificate_of_its_authority(
    env: ApiEnvironment, ours: Authority, theirs: Authority
) -> None:
    tls = ServerTls(files_of(ours, "server", client_ca=str(ours.cert)))
    good, bad, old = (ours.sign("worker"), theirs.sign("stranger"), ours.sign("old", days=-1))
    async with served(env.api, tls=tls) as address:
        assert await asked(address, ClientFiles(str(ours.cert), *map(str, good))) == 0
        for pair in (bad, old):
            assert "set client_cert" in await refused(address, ClientFiles(str(ours.cert), *map(str, pair)))
        assert "set client_cert" in await refused(address, ClientFiles(str(ours.cert)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_older_versions_are_refused(env: ApiEnvironment, ours: Authority, version: ssl.TLSVersion) -> None:
    context = ssl.create_default_context(cafile=str(ours.cert))
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    async with served(env.api, tls=ServerTls(files_of(ours, "server"))) as address:
        port = int(address.rpartition(":")[2])
        with pytest.raises(OSError):  # noqa: PT011 - an alert, or a closed connection
            await asyncio.open_connection("127.0.0.1", port, ssl=context)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.2"
        writer.close()


async def test_certificates_are_renewed_without_an_effect_on_open_connections(
    env: ApiEnvironment, ours: Authority, theirs: Authority, folder: Path
) -> None:
    now = ServerFiles(str(folder / "now.pem"), str(folder / "now.key"), str(folder / "now-ca.pem"))

    def put(authority: Authority) -> None:
        cert, key = authority.sign("renewed")
        for source, target in ((cert, now.cert), (key, now.key), (authority.cert, now.client_ca)):
            Path(target).write_bytes(source.read_bytes())

    def spoil() -> None:
        Path(now.key).write_text("no key", encoding="utf-8")

    def files(authority: Authority) -> ClientFiles:
        return ClientFiles(str(authority.cert), *map(str, authority.sign("client")))

    put(ours)
    tls = ServerTls(now)
    async with served(env.api, tls=tls) as address:
        kept = connect([address], tls=files(ours))
        assert not await kept.find(JobQuery(limit=1))
        spoil()
        tls.reload_if_changed()
        assert await asked(address, files(ours)) == 0, "the former one stays in use"
        put(theirs)
        tls.reload_if_changed()
        assert await asked(address, files(theirs)) == 0
        assert "CERTIFICATE_VERIFY_FAILED" in await refused(address, files(ours))
        # A client of the former authority is no longer accepted either.
        pair = [str(path) for path in ours.sign("client")]
        assert "set client_cert" in await refused(address, ClientFiles(str(theirs.cert), *pair))
        assert not await kept.find(JobQuery(limit=1))
        await kept.close()


async def test_a_connection_that_does_not_shake_hands_is_closed_and_counted(
    env: ApiEnvironment, ours: Authority
) -> None:
    async with served(env.api, QUICK, ServerTls(files_of(ours, "server"))) as address:
        port = int(address.rpartition(":")[2])
        for words in (b"", b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(words)
            answer = await asyncio.wait_for(reader.read(), 10)
            assert b"HTTP" not in answer
            writer.close()
        assert env.api.rejections.counts.values[("tls_handshake",)] == 3


async def test_handshakes_count_as_connections(env: ApiEnvironment, ours: Authority) -> None:
    few = Timeouts(connections=3, connections_from_one=3)
    async with served(env.api, few, ServerTls(files_of(ours, "server"))) as address:
        port = int(address.rpartition(":")[2])
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        assert await asked(address, ClientFiles(str(ours.cert))) == 0
        assert await asyncio.wait_for(silent[0][0].read(), 10) == b"", "the oldest gave way"
        for _, writer in silent:
            writer.close()


async def test_many_silent_connections_give_way_one_after_the_other(env: ApiEnvironment, ours: Authority) -> None:
    """Also those that are closed before their handshake has begun; whoever shakes hands is served all the while."""
    few = Timeouts(connections=5, connections_from_one=5)
    async with served(env.api, few, ServerTls(files_of(ours, "server"))) as address:
        port = int(address.rpartition(":")[2])
        for _ in range(10):
            silent = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(20)))
            assert await asked(address, ClientFiles(str(ours.cert))) == 0
            for _, writer in silent:
                writer.close()
        await until(lambda: "rota-tls-handshake" not in {task.get_name() for task in asyncio.all_tasks()})


async def test_a_server_stops_at_once_though_a_handshake_is_under_way(env: ApiEnvironment, ours: Authority) -> None:
    loop = asyncio.get_running_loop()
    tls = ServerTls(files_of(ours, "server"))
    async with served(env.api, tls=tls) as address:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
        await until(lambda: "rota-tls-handshake" in {task.get_name() for task in asyncio.all_tasks()})
        began_at = loop.time()
    assert loop.time() - began_at < 5
    assert await reader.read() == b""
    writer.close()


async def test_an_error_over_tls_arrives_whole(env: ApiEnvironment, ours: Authority) -> None:
    context = ssl.create_default_context(cafile=str(ours.cert))
    async with served(env.api, QUICK, ServerTls(files_of(ours, "server"))) as address:
        port = int(address.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"nonsense\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 10)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.endswith(b"}")
        writer.close()


async def test_a_large_response_arrives_whole_over_tls(env: ApiEnvironment, ours: Authority) -> None:
    async with served(env.api, tls=ServerTls(files_of(ours, "server"))) as address:
        client = connect([address], tls=ClientFiles(str(ours.cert)))
        await env.submit(payload="x" * 900_000)
        found = await client.find(JobQuery(limit=1))
        assert len(found[0].payload or "") > 900_000
        await client.close()


async def test_connections_leave_nothing_behind(env: ApiEnvironment, ours: Authority) -> None:
    tls = ServerTls(files_of(ours, "server"))
    async with served(env.api, tls=tls) as address:
        for _ in range(5):
            await asked(address, ClientFiles(str(ours.cert)))
    gc.collect()
    assert _handshakes() == 0


def _handshakes() -> int:
    return sum(type(one) is Handshake for one in gc.get_objects())


# Wrong files


def wrong_files(ours: Authority, folder: Path) -> dict[str, tuple[ServerFiles, str]]:
    (cert, key), (other, _) = ours.sign("one"), ours.sign("other")
    empty, locked = folder / "empty.pem", folder / "encrypted.key"
    empty.write_text("", encoding="utf-8")
    words = ["openssl", "ec", "-in", str(key), "-aes256", "-passout", "pass:x", "-out", str(locked)]
    subprocess.run(words, check=True, capture_output=True)
    c, k = str(cert), str(key)
    return {
        "missing certificate": (ServerFiles("nowhere.pem", k), "tls_cert: 'nowhere.pem'.*No such file"),
        "missing key": (ServerFiles(c, "nowhere.key"), "tls_key: 'nowhere.key'.*No such file"),
        "a folder": (ServerFiles(str(folder), k), "tls_cert:.*directory"),
        "not PEM": (ServerFiles(str(empty), k), "is no PEM certificate"),
        "key not PEM": (ServerFiles(c, str(empty)), "it is no PEM key"),
        "key of another": (ServerFiles(str(other), k), "it is not the key of the certificate"),
        "no key": (ServerFiles(c), "name the key in 'tls_key'"),
        "encrypted key": (ServerFiles(c, str(locked)), "the key is encrypted"),
        "authority missing": (ServerFiles(c, k, "nowhere.pem"), "tls_client_ca: 'nowhere.pem'.*No such file"),
        "authority not PEM": (ServerFiles(c, k, str(empty)), "tls_client_ca:.*it has no PEM certificate"),
    }


def test_files_that_cannot_be_used_are_refused_by_the_name_of_their_setting(ours: Authority, folder: Path) -> None:
    for name, (files, message) in wrong_files(ours, folder).items():
        with pytest.raises(InvalidRequest, match=message):
            ServerTls(files)
        assert name


def test_a_client_refuses_files_that_it_cannot_use(ours: Authority, folder: Path) -> None:
    empty = folder / "none.pem"
    empty.write_text("", encoding="utf-8")
    with pytest.raises(InvalidRequest, match=r"ca_file: 'nowhere.pem'"):
        ClientFiles("nowhere.pem").context()
    with pytest.raises(InvalidRequest, match=r"ca_file:.*no PEM certificate"):
        ClientFiles(str(empty)).context()
    with pytest.raises(InvalidRequest, match=r"client_cert:.*name the key in 'client_key'"):
        ClientFiles(str(ours.cert), str(ours.cert)).context()


def test_a_key_that_others_can_read_is_warned_of(ours: Authority, caplog: pytest.LogCaptureFixture) -> None:
    cert, key = ours.sign("open")
    os.chmod(key, 0o644)  # noqa: PTH101 - the point
    ServerTls(ServerFiles(str(cert), str(key)))
    assert "every user of this machine can read the key" in caplog.text

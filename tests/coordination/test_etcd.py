"""The etcd adapter beyond the port: nodes that die, hang and come back, users, TLS, and the space that it uses."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from rota.coordination.etcd import EtcdCoordinator, location_of
from rota.coordination.etcd.gateway import EtcdRefused
from rota.core.cluster import Leadership, Member, Role
from rota.core.configuration import Configuration
from rota.core.errors import CoordinatorUnavailable
from servers.certificates import sign_itself
from servers.etcd import EtcdCluster, require_binary, shared_cluster

LONG = timedelta(seconds=120)
_numbers = count(1)


@asynccontextmanager
async def opened(url: str, *, seconds: float = 30) -> AsyncIterator[EtcdCoordinator]:
    coordinator = EtcdCoordinator(location_of(url), timeout=seconds)
    try:
        yield coordinator
    finally:
        await coordinator.close()


def own_prefix(cluster: EtcdCluster) -> str:
    return f"etcd://{cluster.endpoints}/adapter-{next(_numbers)}"


@pytest.fixture
def three() -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(require_binary(), 3)
    yield cluster
    cluster.remove()


@pytest.fixture
def alone() -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(require_binary())
    yield cluster
    cluster.remove()


async def eventually(act: Callable[[], Awaitable[Leadership]]) -> Leadership:
    """Repeat a call until there is an answer."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await act()
            except CoordinatorUnavailable:
                await asyncio.sleep(0.05)


async def test_the_loss_of_one_node_of_three_is_not_noticed_and_of_two_is_said_and_healed(three: EtcdCluster) -> None:
    async with opened(own_prefix(three)) as ours, opened(own_prefix(three), seconds=1) as hasty:
        first = await ours.campaign("scheduler", "a", LONG)
        watching = asyncio.create_task(ours.changed(await ours.configuration(), LONG))
        await asyncio.sleep(0)
        for node in (three.nodes[0], three.nodes[1]):
            three.kill(node)
            kept = await ours.campaign("scheduler", "a", LONG)
            assert (kept.holder, kept.term) == ("a", first.term)
            three.start(node)
            three.wait()
        assert (await watching).values == {}, "a watch whose node died is answered by another"
        for node in three.nodes[:2]:
            three.kill(node)
        with pytest.raises(CoordinatorUnavailable, match=r"etcd does not answer .*127\.0\.0\.1"):
            await hasty.campaign("scheduler", "a", LONG)
        three.start(three.nodes[0])
        healed = await eventually(lambda: ours.campaign("scheduler", "a", LONG))
        assert (healed.holder, healed.term) == ("a", first.term)


async def test_a_node_that_hangs_is_left_for_the_next(three: EtcdCluster) -> None:
    async with opened(own_prefix(three)) as ours:
        first = await ours.campaign("scheduler", "a", LONG)
        process = three.nodes[0].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            kept = await ours.campaign("scheduler", "a", LONG)
        finally:
            process.send_signal(signal.SIGCONT)
        assert kept.term == first.term


async def test_a_user_comes_with_a_password_and_a_token_that_etcd_forgot_is_renewed(alone: EtcdCluster) -> None:
    for words in ("user add root:s3cret", "user grant-role root root", "auth enable"):
        alone.control(*words.split())
    node = alone.nodes[0]
    async with opened(f"etcd://root:s3cret@{alone.endpoints}") as ours:
        first = await ours.campaign("scheduler", "a", LONG)
        alone.kill(node)
        alone.start(node)
        alone.wait()
        again = await eventually(lambda: ours.campaign("scheduler", "a", LONG))
        assert again.term == first.term
    for url in (f"etcd://root:wrong@{alone.endpoints}", f"etcd://{alone.endpoints}"):
        async with opened(url) as stranger:
            with pytest.raises(EtcdRefused) as refusal:
                await stranger.campaign("scheduler", "b", LONG)
            assert "wrong" not in str(refusal.value)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return sign_itself(tmp_path_factory.mktemp("tls"))


async def test_over_tls_only_a_node_with_a_valid_certificate_is_used(certificate: tuple[Path, Path]) -> None:
    cluster = EtcdCluster(require_binary(), tls=certificate)
    try:
        async with opened(f"etcds://{cluster.endpoints}?ca={certificate[0]}") as ours:
            assert (await ours.campaign("scheduler", "a", LONG)).holder == "a"
        async with opened(f"etcds://{cluster.endpoints}?verify=no") as careless:
            assert await careless.leader("scheduler") is not None
        async with opened(f"etcds://{cluster.endpoints}", seconds=4) as wary:
            with pytest.raises(CoordinatorUnavailable, match=r"(?i)certificate"):
                await wary.leader("scheduler")
    finally:
        cluster.remove()


async def test_a_watch_from_before_what_was_compacted_away_is_answered(alone: EtcdCluster) -> None:
    async with opened(own_prefix(alone)) as ours:
        for level in ("debug", "info", "error"):
            await ours.configure("log_level", level)
        alone.control("compaction", str((await ours.configuration()).revision))
        async with asyncio.timeout(60):
            assert (await ours.changed(Configuration(), LONG)).values == {"log_level": "error"}


async def test_a_member_that_cannot_be_read_does_not_hide_the_others() -> None:
    cluster = shared_cluster()
    url = own_prefix(cluster)
    async with opened(url) as ours:
        cluster.control("put", f"{location_of(url).prefix}/members/foreign", "what is this")
        await ours.register([Member(Role.WORKER, "ada", "boot-1")])
        assert [member.name for member in await ours.members()] == ["ada"]


async def test_a_busy_member_takes_no_room_in_the_history_of_etcd_for_its_load() -> None:
    """Written every five seconds, a hundred workers would fill etcd's space within days without compaction."""
    member = Member(Role.WORKER, "ada", "boot-1", slots=10)
    async with opened(own_prefix(shared_cluster())) as ours:
        await ours.register([member])
        revision = (await ours.configuration()).revision
        for busy in range(5):
            await ours.register([replace(member, busy=busy)])
        assert (await ours.configuration()).revision == revision


async def test_a_lease_whose_grant_was_answered_twice_is_one_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to the first grant was lost: the second finds the lease there, and that is fine."""
    monkeypatch.setattr("rota.coordination.etcd.keys.secrets.randbits", lambda bits: 4711 + bits)
    async with opened(own_prefix(shared_cluster())) as ours:
        assert await ours.lock("one", "a", LONG) is not None
        assert await ours.lock("two", "a", LONG) is not None


@asynccontextmanager
async def answering(status: str, body: bytes) -> AsyncIterator[str]:
    """A server that gives one answer to all requests."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_what_is_no_etcd_is_said_to_be_none_with_its_own_words() -> None:
    said = "421: 'the Host header was unrecognized'; is this an etcd"
    misdirected = answering("421 Misdirected Request", b"the Host header was\nunrecognized")
    async with misdirected as place, opened(place, seconds=3) as ours:
        with pytest.raises(CoordinatorUnavailable, match=said):
            await ours.leader("scheduler")


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":"etcdserver: permission denied","code":7,"message":"etcdserver: permission denied"}',
        b'{"code":7,"message":"etcdserver: permission denied","details":[]}',
    ],
    ids=["until-3.5", "since-3.6"],
)
async def test_a_refusal_is_read_in_the_form_of_every_release(body: bytes) -> None:
    async with answering("403 Forbidden", body) as place, opened(place) as ours:
        with pytest.raises(EtcdRefused, match="permission denied") as refusal:
            await ours.leader("scheduler")
    assert refusal.value.code == 7

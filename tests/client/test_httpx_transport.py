"""The client's transport against servers that respond byte by byte, in pieces, too late, or not at all."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from rota.client import connection, httpx_transport
from rota.client.httpx_transport import PooledTransport
from rota.sockets import HALF_OPEN_SECONDS
from rota.tls import ClientFiles
from servers.certificates import sign_itself
from servers.proxies import Proxy

Part = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """A server that plays one part for each connection, in order, and the last one for all that follow."""

    def __init__(self, *parts: Part) -> None:
        self.parts = list(parts)
        self.connections = 0
        self.url = ""
        self.opened = asyncio.Event()
        self.closed = asyncio.Event()

    async def play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        part = self.parts[min(self.connections, len(self.parts) - 1)]
        self.connections += 1
        self.opened.set()
        try:
            await part(reader, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # The client is gone, or the test.
            pass
        finally:
            writer.close()
            self.closed.set()


@asynccontextmanager
async def serving(*parts: Part, context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(*parts)
    listening = await asyncio.start_server(server.play, "127.0.0.1", 0, ssl=context)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/path?a=b"
    try:
        yield server
    finally:
        listening.close()


@asynccontextmanager
async def client(wire: PooledTransport | None = None, **limits: float) -> AsyncIterator[httpx.AsyncClient]:
    timeout = httpx.Timeout(20.0, **limits)
    async with httpx.AsyncClient(transport=wire or PooledTransport(), trust_env=False, timeout=timeout) as http:
        yield http


async def heard(reader: asyncio.StreamReader) -> bytes:
    """Read one request whole."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return head + await reader.readexactly(int(lengths[0]) if lengths else 0)


def saying(*pieces: bytes, requests: int = 1000, apart: bool = False) -> Part:
    """Answer requests with the same pieces each, then hang up."""

    async def part(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(requests):
            await heard(reader)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                if apart:
                    await asyncio.sleep(0.01)

    return part


async def hanging_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await heard(reader)


async def never_answering(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def test_a_request_arrives_whole_and_as_it_was_meant() -> None:
    requests = list[bytes]()

    async def part(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await heard(reader))
        writer.write(OK)

    async with serving(part) as server, client() as http:
        answer = await http.post(server.url, content=b"x" * 100_000, headers={"X-One": "1"})
    assert (answer.status_code, answer.content) == (200, b"ok")
    head, _, body = requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /path?a=b HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nX-One: 1" in head
    assert body == b"x" * 100_000


async def test_connections_are_used_again() -> None:
    async with serving(saying(OK)) as server, client() as http:
        for _ in range(5):
            assert (await http.get(server.url)).content == b"ok"
        assert server.connections == 1
        await asyncio.gather(*(http.get(server.url) for _ in range(5)))
        # As many as were needed at once, and no more: those that asked later may have found one free.
        assert 1 < server.connections <= 5


async def test_no_more_connections_than_allowed() -> None:
    async with serving(saying(OK)) as server, client(PooledTransport(2)) as http:
        answers = await asyncio.gather(*(http.get(server.url) for _ in range(20)))
        assert len(answers) == 20
        assert server.connections <= 2


async def test_a_request_that_gets_no_connection_in_time_fails() -> None:
    async with serving(never_answering) as server, client(PooledTransport(1), pool=0.05) as http:
        first = asyncio.create_task(http.get(server.url))
        await asyncio.sleep(0)
        with pytest.raises(httpx.PoolTimeout):
            await http.get(server.url)
        first.cancel()


async def test_an_answer_may_come_in_pieces_of_any_kind() -> None:
    head = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nX-Two: 2\r\n\r\n"
    pieces = (head[:7], head[7:], b"5\r\nhel", b"lo\r\n", b"0\r\n\r\n")
    async with serving(saying(*pieces, apart=True)) as server, client() as http:
        for _ in range(2):
            answer = await http.get(server.url)
            assert (answer.status_code, answer.content, answer.headers["x-two"]) == (201, b"hello", "2")
        assert server.connections == 1


async def test_an_answer_of_unknown_length_ends_with_its_connection() -> None:
    async with serving(saying(b"HTTP/1.1 200 OK\r\n\r\nall of", b" it", requests=1)) as server, client() as http:
        assert (await http.get(server.url)).content == b"all of it"
        assert (await http.get(server.url)).content == b"all of it"
        assert server.connections == 2


async def test_what_is_packed_is_refused() -> None:
    """It was not requested, and unpacked it may be a thousand times as large."""
    packed = gzip.compress(b"a" * 1000)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    async with serving(saying(head + packed)) as server, client() as http:
        with pytest.raises(httpx.RemoteProtocolError, match="compressed"):
            await http.get(server.url)


def endlessly(start: bytes, piece: bytes) -> Part:
    """Begin an answer and go on until the client disconnects."""

    async def part(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await heard(reader)
        writer.write(start)
        while True:
            writer.write(piece)
            await writer.drain()

    return part


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 1_000),
        (b"HTTP/1.1 200 OK\r\nA: ", b"b" * 10_000),
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"b" * 100_000),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n", b"b" * 100_000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nb\r\n" * 10_000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n" * 10_000),
    ],
    ids=["headers", "one header", "early answers", "body", "body of a length", "chunks", "trailers"],
)
async def test_an_answer_without_an_end_is_given_up(start: bytes, piece: bytes) -> None:
    """It was kept until memory ran out."""
    async with serving(endlessly(start, piece)) as server, client() as http:
        with pytest.raises(httpx.RemoteProtocolError, match="too large"):
            await http.get(server.url)
        await server.closed.wait()


async def test_an_answer_that_comes_in_drops_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece came in time, so the whole never had to."""
    monkeypatch.setattr(connection, "LONGEST_SECONDS", 0.2)

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await heard(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"b")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with serving(drip) as server, client(read=0.3) as http:
        with pytest.raises(httpx.ReadTimeout, match="too long"):
            await http.get(server.url)


async def test_news_before_the_answer_is_passed_over() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    async with serving(saying(early, OK)) as server, client() as http:
        answer = await http.get(server.url)
        assert (answer.status_code, answer.content, "link" in answer.headers) == (200, b"ok", False)


async def test_news_and_then_nothing_is_no_answer() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    async with serving(saying(early, requests=1)) as server, client() as http:
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            await http.get(server.url)


async def test_a_server_that_wants_to_close_is_obeyed() -> None:
    last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    async with serving(saying(last)) as server, client() as http:
        await http.get(server.url)
        await http.get(server.url)
        assert server.connections == 2


async def test_a_kept_connection_that_was_closed_is_not_used() -> None:
    async with serving(saying(OK, requests=1)) as server, client() as http:
        await http.get(server.url)
        await server.closed.wait()
        assert (await http.get(server.url)).content == b"ok"
        assert server.connections == 2


async def test_a_kept_connection_that_closes_as_it_is_used_costs_nobody_an_answer() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await heard(reader)
        writer.write(OK)
        # And then takes a second request, and hangs up.
        await heard(reader)

    async with serving(once, saying(OK)) as server, client() as http:
        await http.get(server.url)
        assert (await http.post(server.url, content=b"again")).content == b"ok"
        assert server.connections == 2


async def test_an_old_connection_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(saying(OK)) as server, client() as http:
        await http.get(server.url)
        monkeypatch.setattr(httpx_transport, "KEPT_SECONDS", 0.0)
        await http.get(server.url)
        assert server.connections == 2


async def test_what_broke_off_is_not_taken_for_an_answer() -> None:
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"
    async with serving(saying(half, requests=1)) as server, client() as http:
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            await http.get(server.url)
        assert server.connections == 1


async def test_half_a_head_is_no_answer() -> None:
    async with serving(saying(b"HTTP/1.1 200 OK\r\nContent-", requests=1)) as server, client() as http:
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            await http.get(server.url)


async def test_a_new_connection_without_an_answer_is_an_error() -> None:
    async with serving(hanging_up) as server, client() as http:
        with pytest.raises(httpx.RemoteProtocolError, match="without a response"):
            await http.get(server.url)
        assert server.connections == 1


async def test_what_is_not_http_is_told() -> None:
    async with serving(saying(b"220 mail.example ESMTP\r\n")) as server, client() as http:
        with pytest.raises(httpx.RemoteProtocolError, match="not HTTP"):
            await http.get(server.url)


async def test_a_server_that_sends_more_than_one_response_is_disconnected() -> None:
    other = b"HTTP/1.1 500 No\r\nX-Other: 1\r\nContent-Length: 5\r\n\r\nother"
    async with serving(saying(OK + other), saying(OK)) as server, client() as http:
        for _ in range(2):
            answer = await http.get(server.url)
            assert (answer.status_code, answer.content, "x-other" in answer.headers) == (200, b"ok", False)
        assert server.connections == 2


async def test_a_server_that_keeps_silent_is_left() -> None:
    async with serving(never_answering) as server, client(read=0.05) as http:
        with pytest.raises(httpx.ReadTimeout, match=r"0\.05 s"):
            await http.get(server.url)
        await asyncio.wait_for(server.closed.wait(), 20)


async def test_patience_begins_anew_with_every_piece() -> None:
    pieces = (b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n", *[b"x"] * 60)
    async with serving(saying(*pieces, apart=True)) as server, client(read=0.5) as http:
        # All of it takes at least 0.6 s, and no pause in it half a second.
        assert (await http.get(server.url)).content == b"x" * 60


async def test_a_host_is_reached_at_whichever_of_its_addresses_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(*_: object) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    monkeypatch.setattr(connection, "_addresses", find)
    # Nothing listens at the first one, and it refuses.
    async with serving(saying(OK)) as server, client() as http:
        assert (await http.get(server.url)).content == b"ok"
    # The first one does not respond: its backlog of connections is full.
    with socket.socket() as deaf, ExitStack() as waiting:
        async with serving(saying(OK)) as server:
            port = httpx.URL(server.url).port
            assert port is not None
            deaf.bind(("127.0.0.2", port))
            deaf.listen(0)
            for _ in range(4):
                caller = waiting.enter_context(socket.socket())
                caller.settimeout(0)
                caller.connect_ex(("127.0.0.2", port))
            async with client() as http:
                assert (await http.get(server.url)).content == b"ok"


async def test_a_host_that_refuses_at_all_its_addresses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(*_: object) -> list[str]:
        return ["127.0.0.2", "127.0.0.3"]

    monkeypatch.setattr(connection, "_addresses", find)
    async with serving(saying(OK)) as server, client() as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(server.url)


async def test_a_name_is_looked_up() -> None:
    async with serving(saying(OK)) as server, client() as http:
        assert (await http.get(server.url.replace("127.0.0.1", "localhost"))).content == b"ok"
        with pytest.raises(httpx.ConnectError):
            await http.get(f"http://{'long' * 20}.invalid/")


async def test_what_is_still_used_at_the_end_is_let_go_of_later() -> None:
    wire = PooledTransport()
    async with serving(saying(OK)) as server:
        async with httpx.AsyncClient(transport=wire, trust_env=False) as http:
            asking = asyncio.create_task(http.get(server.url))
            await server.opened.wait()
            await wire.aclose()
            assert (await asking).content == b"ok"
        await asyncio.wait_for(server.closed.wait(), 20)


async def test_nobody_there_is_told() -> None:
    async with serving(hanging_up) as server:
        url = server.url
    async with client() as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(url)


async def test_a_cancelled_request_closes_its_connection() -> None:
    async with serving(never_answering) as server, client() as http:
        asking = asyncio.create_task(http.get(server.url))
        await server.opened.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(server.closed.wait(), 20)


async def test_a_header_cannot_bring_another_one_along() -> None:
    async with serving(saying(OK)) as server, client() as http:
        with pytest.raises(httpx.LocalProtocolError, match="token"):
            await http.get(server.url, headers={"Authorization": "Bearer x\r\nX-Admin: 1"})
        assert server.connections == 0


async def test_what_this_wire_does_not_carry_is_refused() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"

    async with serving(saying(OK)) as server, client() as http:
        for asking in (http.head(server.url), http.post(server.url, content=pieces())):
            with pytest.raises(httpx.LocalProtocolError):
                await asking
        assert server.connections == 0


async def test_an_address_of_another_kind_is_refused() -> None:
    async with client() as http:
        with pytest.raises(httpx.UnsupportedProtocol):
            await http.get("ftp://127.0.0.1/")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return sign_itself(tmp_path_factory.mktemp("tls"))


async def test_over_tls_only_a_server_with_a_valid_certificate_is_used(certificate: tuple[Path, Path]) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    async with serving(saying(OK), context=context) as server:
        url = server.url.replace("http://", "https://")
        async with client(PooledTransport(tls=ClientFiles(str(certificate[0])))) as trusting:
            for _ in range(2):
                assert (await trusting.get(url)).content == b"ok"
        assert server.connections == 1
        async with client() as careful:
            with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
                await careful.get(url)
        assert server.connections == 1


async def test_an_answer_that_does_not_come_in_time_drops_the_connections_that_rest() -> None:
    """They may be half-open as well, and each would be waited for in turn."""
    async with serving(saying(OK)) as server, client(read=0.2) as http:
        port = int(server.url.split(":")[2].split("/")[0])
        with Proxy(port) as proxy:
            url = proxy.through(server.url)
            await asyncio.gather(*(http.get(url) for _ in range(3)))
            assert proxy.accepted == 3
            proxy.lose_all()
            with pytest.raises(httpx.ReadTimeout):
                await http.get(url)
            assert (await http.get(url)).text == "ok"
            assert proxy.accepted == 4


@pytest.mark.parametrize("fail", [Proxy.reset, Proxy.swallow, Proxy.one_way], ids=["reset", "swallow", "one way"])
async def test_a_server_that_cannot_be_reached_is_reported_and_used_again(fail: Callable[[Proxy], None]) -> None:
    async with serving(saying(OK)) as server, client(read=0.3) as http:
        with Proxy(int(server.url.split(":")[2].split("/")[0])) as proxy:
            url = proxy.through(server.url)
            assert (await http.get(url)).text == "ok"
            fail(proxy)
            with pytest.raises(httpx.TransportError):
                await http.get(url)
            proxy.forward()
            assert (await http.get(url)).text == "ok"


async def test_a_slow_server_is_waited_for_and_a_connection_that_is_cut_is_replaced() -> None:
    async with serving(saying(OK)) as server, client(read=5.0) as http:
        with Proxy(int(server.url.split(":")[2].split("/")[0])) as proxy:
            url = proxy.through(server.url)
            proxy.delay(0.05)
            assert (await http.get(url)).text == "ok"
            proxy.cut()
            assert (await http.get(url)).text == "ok"


async def test_the_kernel_is_told_to_notice_a_silent_server() -> None:
    async with serving(saying(OK)) as server, client(PooledTransport()) as http:
        await http.get(server.url)
        wire = http._transport
        assert isinstance(wire, PooledTransport)
        (kept,) = next(iter(wire._idle.values()))
        assert kept._transport is not None
        raw = kept._transport.get_extra_info("socket")
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == HALF_OPEN_SECONDS * 1000

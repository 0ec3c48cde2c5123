"""What the command line does about answers that are too large, or never end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from rota.cli import api_client
from rota.cli.api_client import ApiClient
from rota.cli.exits import CommandFailed, Exit

Talk = Callable[[socket.socket], None]


@contextmanager
def serving(talk: Talk) -> Iterator[ApiClient]:
    """Answer one request, and wait until its connection is closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            # The command hangs up when it has had enough.
            with connection, suppress(OSError):
                connection.recv(65_536)
                talk(connection)

        thread = threading.Thread(target=answer)
        thread.start()
        yield ApiClient([f"http://127.0.0.1:{listener.getsockname()[1]}"])
        thread.join(timeout=30)
        assert not thread.is_alive()


def test_a_server_that_hangs_up_may_speak_tls() -> None:
    """It was said that no server answers, and that one should be started."""
    with serving(lambda _: None) as client, pytest.raises(CommandFailed) as refusal:
        client.get("/v1/stats")
    assert refusal.value.code == Exit.UNREACHABLE
    assert "https://" in (refusal.value.fix or "")


@pytest.mark.parametrize(("token", "said"), [("", "requires a token"), ("wrong", "did not accept the token")])
def test_a_wrong_token_is_not_taken_for_a_missing_one(token: str, said: str) -> None:
    """With a wrong token it was said that the server requires one."""
    refusal_of_server = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}"
    with serving(lambda connection: connection.sendall(refusal_of_server)) as client:
        client._token = token
        with pytest.raises(CommandFailed, match=said) as refusal:
            client.get("/v1/stats")
    assert refusal.value.code == Exit.NOT_AUTHORISED
    assert "ROTA_TOKEN" in (refusal.value.fix or "")


def endlessly(start: bytes, piece: bytes) -> Talk:
    def talk(connection: socket.socket) -> None:
        connection.sendall(start)
        while True:
            connection.sendall(piece)

    return talk


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"A: " + b"b" * 1_000 + b"\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"b" * 100_000),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n", b"b" * 100_000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"3e8\r\n" + b"b" * 1000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n", b"b" * 100_000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: " + b"b" * 10_000 + b"\r\n"),
        (b"HTTP/1.1 422 No\r\n\r\n", b"b" * 100_000),
    ],
    ids=["headers", "early answers", "body", "body of a length", "chunks", "one chunk", "trailers", "refusal"],
)
def test_an_answer_without_an_end_is_given_up(start: bytes, piece: bytes) -> None:
    with serving(endlessly(start, piece)) as here, pytest.raises(CommandFailed, match="too large") as failed:
        here.get("/v1/jobs")
    assert failed.value.code is Exit.UNREACHABLE


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["head", "body"])
def test_an_answer_that_comes_in_drops_is_given_up(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(api_client, "LONGEST_SECONDS", 0.2)
    is_over = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(start)
        while not is_over.wait(0.01):
            connection.sendall(b"b")

    with serving(drip) as here:
        with pytest.raises(CommandFailed, match="too long"):
            here.get("/v1/jobs")
        is_over.set()


def test_a_large_answer_within_the_limit_is_read() -> None:
    text = b'"' + b"b" * 9_000_000 + b'"'

    def talk(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)

    with serving(talk) as here:
        assert len(here.get("/v1/jobs")) == len(text) - 2

"""The proxy of the tests leaves no connection open, whenever it is closed."""

from __future__ import annotations

import gc
import socket
import threading
import warnings

from servers.proxies import Proxy


def test_a_connection_accepted_while_the_proxy_closes_is_closed_too() -> None:
    """Its task was cancelled before its first step, and the socket was found by a collector in some later test."""
    with warnings.catch_warnings(record=True) as answer, socket.create_server(("127.0.0.1", 0)) as server:
        warnings.simplefilter("always")
        proxy = Proxy(server.getsockname()[1])
        proxy.__enter__()
        is_blocked, is_closing = threading.Event(), threading.Event()

        def block() -> None:
            is_blocked.set()
            is_closing.wait()

        proxy._loop.call_soon_threadsafe(block)
        is_blocked.wait()
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            closing = threading.Thread(target=proxy.__exit__)
            closing.start()
            # Both the connection and the order to close now wait for the loop.
            while not proxy._loop._ready:  # type: ignore[attr-defined]
                pass
            is_closing.set()
            closing.join()
            assert client.recv(1) == b""
        gc.collect()
    assert [str(one.message) for one in answer] == []

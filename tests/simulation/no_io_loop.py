"""An event loop without I/O: each method of asyncio that uses threads, sockets, processes or signals is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn


class SimulationError(Exception):
    """The simulation could not go on. Never raised by the code under test."""


class RealIoRefused(SimulationError, NotImplementedError):
    """A thread, a socket, a process or a signal was asked for; the simulation has none."""


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(*arguments: object, **options: object) -> NoReturn:  # noqa: ARG001 - whatever was asked, the answer is no
        raise RealIoRefused(f"{name}: the simulated world has no threads, sockets, processes or signals")

    return refuse


class NoIoLoop(asyncio.AbstractEventLoop):
    """Refuses everything but callbacks and timers."""

    add_reader: Any = _refused("add_reader")
    add_signal_handler: Any = _refused("add_signal_handler")
    add_writer: Any = _refused("add_writer")
    connect_accepted_socket: Any = _refused("connect_accepted_socket")
    connect_read_pipe: Any = _refused("connect_read_pipe")
    connect_write_pipe: Any = _refused("connect_write_pipe")
    create_connection: Any = _refused("create_connection")
    create_datagram_endpoint: Any = _refused("create_datagram_endpoint")
    create_server: Any = _refused("create_server")
    create_unix_connection: Any = _refused("create_unix_connection")
    create_unix_server: Any = _refused("create_unix_server")
    getaddrinfo: Any = _refused("getaddrinfo")
    getnameinfo: Any = _refused("getnameinfo")
    remove_reader: Any = _refused("remove_reader")
    remove_signal_handler: Any = _refused("remove_signal_handler")
    remove_writer: Any = _refused("remove_writer")
    run_in_executor: Any = _refused("run_in_executor")
    sendfile: Any = _refused("sendfile")
    set_default_executor: Any = _refused("set_default_executor")
    sock_accept: Any = _refused("sock_accept")
    sock_connect: Any = _refused("sock_connect")
    sock_recv: Any = _refused("sock_recv")
    sock_recv_into: Any = _refused("sock_recv_into")
    sock_recvfrom: Any = _refused("sock_recvfrom")
    sock_recvfrom_into: Any = _refused("sock_recvfrom_into")
    sock_sendall: Any = _refused("sock_sendall")
    sock_sendfile: Any = _refused("sock_sendfile")
    sock_sendto: Any = _refused("sock_sendto")
    start_tls: Any = _refused("start_tls")
    subprocess_exec: Any = _refused("subprocess_exec")
    subprocess_shell: Any = _refused("subprocess_shell")

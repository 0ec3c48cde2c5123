"""TCP socket options by which the kernel detects half-open connections; and limits of HTTP responses.

A connection is half-open when its peer has disappeared without closing it: a host lost its power, a firewall dropped
the connection. Keepalive probes detect an idle one, the user timeout one with unacknowledged data, both within
`HALF_OPEN_SECONDS`. Proxies acknowledge whatever they are sent, so clients have timeouts of their own as well.

The limits are here because the Python client and the command line share them.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

#: The most bytes of a response's head, and of the whole response. A server's pages and claims end at 8 MB.
LARGEST_HEAD: Final = 65_536
LARGEST_ANSWER: Final = 33_554_432
#: How long the parts of a response may take to arrive, after its first one.
LONGEST_SECONDS: Final = 30.0
#: How long a peer may not answer the kernel until its connection is closed.
HALF_OPEN_SECONDS: Final = 9
_IDLE_SECONDS: Final = 5
_INTERVAL_SECONDS: Final = 2


def _tcp_options() -> dict[int, int]:
    options = {
        "TCP_KEEPIDLE": _IDLE_SECONDS,
        "TCP_KEEPINTVL": _INTERVAL_SECONDS,
        "TCP_KEEPCNT": (HALF_OPEN_SECONDS - _IDLE_SECONDS) // _INTERVAL_SECONDS,
        "TCP_USER_TIMEOUT": HALF_OPEN_SECONDS * 1000,
    }
    return {getattr(socket, name): value for name, value in options.items() if hasattr(socket, name)}


#: By number; options that this system does not have are left out.
TCP_OPTIONS: Final[Mapping[int, int]] = _tcp_options()
#: As `socket.setsockopt` takes them.
OPTIONS: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, number, value) for number, value in TCP_OPTIONS.items()),
)


def keep_alive(raw: Any) -> None:  # noqa: ANN401 - a socket, or a loop's substitute for one
    """Have the kernel probe an idle connection; a peer that reads nothing for a while is not disconnected."""
    _set(raw, [option for option in OPTIONS if option[1] != getattr(socket, "TCP_USER_TIMEOUT", None)])


def detect_half_open(raw: Any) -> None:  # noqa: ANN401 - a socket, or a loop's substitute for one
    """Set all options on a socket; does nothing for a socket that is closed or not TCP."""
    _set(raw, OPTIONS)


def _set(raw: Any, options: Iterable[tuple[int, int, int]]) -> None:  # noqa: ANN401 - as above
    if raw is None or raw.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    with suppress(OSError):
        for option in options:
            raw.setsockopt(*option)


def detect_half_open_on(transport: Any) -> None:  # noqa: ANN401 - drivers leave theirs untyped
    """Set the options on the socket of a transport."""
    if transport is not None:
        detect_half_open(transport.get_extra_info("socket"))

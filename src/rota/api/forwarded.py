"""Requests through a proxy: the caller's address, the scheme and the host, from the headers of trusted proxies.

Anyone can send `X-Forwarded-For`. It counts only on a connection from a trusted proxy, and of its addresses the last
one that is not itself a trusted proxy: what stands before it was written by the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

#: Key in the ASGI scope of a request that a trusted proxy forwards.
PROXIED = "rota.proxied"
#: Key in the ASGI scope of a request below the mount point of another application: that point.
MOUNT = "rota.mount"
_SCHEMES = {b"http": "http", b"https": "https"}


def forwarded(
    scope: MutableMapping[str, Any], headers: Mapping[bytes, bytes], proxies: tuple[str, ...]
) -> Mapping[bytes, bytes]:
    """Set the client and the scheme of a request that a trusted proxy forwards; give its headers, with its host."""
    client = scope.get("client")
    if client is None or not is_trusted(client[0], proxies):
        return headers
    scope[PROXIED] = True
    lines = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    hops = [_without_port(hop.strip().decode("latin-1")) for hop in b",".join(lines).split(b",")]
    caller = next((hop for hop in reversed(hops) if not is_trusted(hop, proxies)), "")
    if is_address(caller):
        scope["client"] = (caller, 0)
    scope["scheme"] = _SCHEMES.get(headers.get(b"x-forwarded-proto", b"").lower(), scope["scheme"])
    host = headers.get(b"x-forwarded-host")
    return {**headers, b"host": host} if host else headers


def _without_port(hop: str) -> str:
    """Return the address of a hop; some proxies add the port, as in `192.0.2.7:51234` and `[2001:db8::7]:51234`."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1024)
def is_trusted(host: str, proxies: tuple[str, ...]) -> bool:
    """Return whether an address is one of the proxies."""
    if not is_address(host):
        return False
    address = ip_address(host)
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address in network for network in _networks(proxies))


@lru_cache(maxsize=8)
def _networks(proxies: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(one, strict=False) for one in proxies)

"""Addresses that an `http` job may reach: those of the public internet, unless a setting allows more.

A name is resolved once, every address it has must be allowed, and the connection goes to an address that was checked:
a name that resolves differently the second time (DNS rebinding) has no effect. Python's `is_global` is not enough; the
addresses that it wrongly allows are listed here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from rota.worker.exceptions import GiveUp

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

#: The only part of IPv6 that was ever assigned to the public. Addresses that contain an IPv4 address lie elsewhere, or
#: are denied below.
PUBLIC_IPV6: Final = IPv6Network("2000::/3")
#: Denied although `is_global` may call some of them global.
DENIED: Final[tuple[Network, ...]] = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT; the metadata service of one cloud is in it
        "168.63.129.16/32",  # a public address by which Azure's machines reach their host
        "192.0.0.0/24",  # special purposes; another cloud's metadata service
        "192.88.99.0/24",  # 6to4 relays
        "240.0.0.0/4",
        "2001::/23",  # special purposes, Teredo among them
        "2002::/16",  # 6to4: an IPv4 address within
        "3fff::/20",
    )
)


class Forbidden(GiveUp):
    """The address is not one that this worker may reach."""


@dataclass(frozen=True, slots=True)
class AddressGuard:
    """The allowed addresses. Hosts on the allow-list are allowed whatever they resolve to."""

    allow_hosts: frozenset[str] = frozenset()
    allow_networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, allowed: Iterable[str]) -> AddressGuard:
        """Parse an allow-list of host names, addresses and networks."""
        hosts, networks = set(), []
        for entry in allowed:
            try:
                networks.append(ip_network(entry, strict=False))
            except ValueError:
                hosts.add(entry.lower().rstrip("."))
        return cls(frozenset(hosts), tuple(networks))

    def permits(self, address: Address) -> bool:
        if any(address in network for network in self.allow_networks if network.version == address.version):
            return True
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            return self.permits(address.ipv4_mapped)
        if address.is_multicast or not address.is_global:
            return False
        if isinstance(address, IPv6Address) and address not in PUBLIC_IPV6:
            return False
        return not any(address in network for network in DENIED if network.version == address.version)

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host; refuse the host if one of them is not allowed."""
        loop = asyncio.get_running_loop()
        try:
            entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ConnectionError(f"{host}: cannot be resolved: {error}") from None
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        if host.lower().rstrip(".") not in self.allow_hosts:
            for text in addresses:
                if not self.permits(ip_address(text.partition("%")[0])):
                    named = host if host == text else f"{host} ({text})"
                    remedy = "name it in allow_hosts (ROTA_ALLOW_HOSTS) of the process that sends"
                    raise Forbidden(f"{named} is not a public address; to allow it, {remedy}")
        return addresses

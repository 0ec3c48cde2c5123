"""Opens the coordinator that a setting names: local, the store, or an etcd."""

from __future__ import annotations

import logging
from dataclasses import replace

from rota.coordination.database import DatabaseCoordinator
from rota.coordination.local import LocalCoordinator
from rota.core.errors import InvalidRequest
from rota.ports.coordinator import Coordinator
from rota.ports.store import Store

_log = logging.getLogger("rota.coordination")


def open_coordinator(url: str, store: Store | None, namespace: str = "") -> Coordinator:
    """Open the coordinator that a setting names; empty means the store. Connects to nothing yet.

    Each namespace has its own leader, members, locks and configuration: in its store, or under its own prefix.
    """
    match url.strip():
        case "local" | "local://":
            return LocalCoordinator()
        case "" | "store" | "database":
            if store is None:
                raise InvalidRequest("coordinator: this process has no store; name an etcd", field="coordinator")
            return DatabaseCoordinator(store)
        case named:
            return _etcd(named, namespace)


def _etcd(url: str, namespace: str) -> Coordinator:
    # Imported when needed: it loads an HTTP client.
    from rota.coordination.etcd import EtcdCoordinator, location_of  # noqa: PLC0415

    location = location_of(url)
    if location.is_exposed:
        _log.warning("etcd on another machine is used without TLS or without verifying its certificate; use etcds://")
    if namespace:
        location = replace(location, prefix=f"{location.prefix}/namespaces/{namespace}")
    return EtcdCoordinator(location)

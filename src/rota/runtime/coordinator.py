"""Which coordinator a setting names."""

from __future__ import annotations

import logging

from rota.coordination.database import DatabaseCoordinator
from rota.coordination.local import LocalCoordinator
from rota.core.errors import InvalidRequest
from rota.ports.coordinator import Coordinator
from rota.ports.store import Store

_log = logging.getLogger("rota.coordination")


def open_coordinator(url: str, store: Store | None) -> Coordinator | None:
    """Open what a setting names: nothing means the store, if there is one. Nobody is asked yet, so nothing can fail."""
    match url.strip():
        case "local" | "local://":
            return LocalCoordinator()
        case "" if store is None:
            return None
        case "" | "store" | "database":
            if store is None:
                raise InvalidRequest("coordinator: the store is not at hand here; name an etcd", field="coordinator")
            return DatabaseCoordinator(store)
        case named:
            return _etcd(named)


def _etcd(url: str) -> Coordinator:
    # Imported when needed: whoever names none need not load an HTTP client.
    from rota.coordination.etcd import EtcdCoordinator, location_of  # noqa: PLC0415

    location = location_of(url)
    if location.is_exposed:
        said = "etcd is asked without TLS, or without knowing who answers, beyond this machine; use etcds://"
        _log.warning("%s", said)
    return EtcdCoordinator(location)

"""The coordinator on etcd, over its JSON gateway: plain HTTP, so that no gRPC is needed (ADR 0013)."""

from __future__ import annotations

from rota.coordination.etcd.coordinator import EtcdCoordinator
from rota.coordination.etcd.location import EtcdLocation, location_of

__all__ = ["EtcdCoordinator", "EtcdLocation", "location_of"]

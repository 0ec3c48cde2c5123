"""`WorkSource` and `Control` over HTTP: callers use it like the engine in process."""

from __future__ import annotations

from rota.client.client import Client, connect

__all__ = ["Client", "connect"]

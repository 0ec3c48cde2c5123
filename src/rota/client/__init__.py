"""`WorkSource` and `Control` over HTTP: callers cannot tell it from the engine in process."""

from __future__ import annotations

from rota.client.client import Client, connect

__all__ = ["Client", "connect"]

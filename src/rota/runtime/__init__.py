"""Putting it together: the only room that knows which store, broker and coordinator are in use."""

from __future__ import annotations

from rota.runtime.broker import BrokerChoice
from rota.runtime.coordinator import open_coordinator
from rota.runtime.link import Link, SideDoor, connect, open_link

__all__ = ["BrokerChoice", "Link", "SideDoor", "connect", "open_coordinator", "open_link"]

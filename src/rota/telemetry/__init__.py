"""Telemetry: the engine emits events; logs, metrics, traces and live streams listen to them.

A listener that raises is logged and stays subscribed; it never fails the verb that emitted the event.
"""

from __future__ import annotations

from rota.telemetry.bus import RelayedTelemetry, Telemetry

__all__ = ["RelayedTelemetry", "Telemetry"]

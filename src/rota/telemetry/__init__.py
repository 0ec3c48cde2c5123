"""What happens, told as it happens: the engine emits, logs, metrics, traces and live streams listen.

A listener that fails is reported and goes on being told; it never fails the work it listens to.
"""

from __future__ import annotations

from rota.telemetry.bus import RelayedTelemetry, Telemetry

__all__ = ["RelayedTelemetry", "Telemetry"]

"""Interfaces: what Rota needs from outside (store, broker, coordinator, clock), and its own two (WorkSource, Control).

Protocols only. Each obligation in a docstring is a test in the conformance suite of that port.
"""

from __future__ import annotations

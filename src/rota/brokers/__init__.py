"""How a worker learns that there is work."""

from __future__ import annotations

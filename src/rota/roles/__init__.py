"""The roles: what a process of Rota does, from its first line of log to its last."""

from __future__ import annotations

from rota.roles.process import run_role

__all__ = ["run_role"]

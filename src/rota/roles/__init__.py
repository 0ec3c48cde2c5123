"""The roles: what a process of Rota does, from its first line of log to its last.

Loads none of its rooms: a worker's companion needs the smallest of them only.
"""

from __future__ import annotations

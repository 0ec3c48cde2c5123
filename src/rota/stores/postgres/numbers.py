"""Whole numbers for a statement that runs all the time.

The driver does not know what a `bigint[]` is, and asks the server on every new connection. That one question costs the
server as much as claiming and settling some 250 jobs, so a worker that has just started spent a sixth of its first
second on it. Written as text and read by the server (`$1::text::bigint[]`), numbers cost neither side more, and nobody
has to ask.
"""

from __future__ import annotations

from collections.abc import Iterable


def numbers(values: Iterable[int]) -> str:
    """Write whole numbers as PostgreSQL writes an array of them."""
    return f"{{{','.join(map(str, values))}}}"

"""Unique batches: split a batch so that a set-based statement gets each key once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def unique_batches(items: Sequence[Item], key: Callable[[Item], Hashable]) -> Iterator[list[int]]:
    """Yield the positions of items in batches: within each, every key occurs once, and equal keys keep their order."""
    left = list(range(len(items)))
    while left:
        seen: set[Hashable] = set()
        batch: list[int] = []
        later: list[int] = []
        for position in left:
            name = key(items[position])
            (later if name in seen else batch).append(position)
            seen.add(name)
        yield batch
        left = later

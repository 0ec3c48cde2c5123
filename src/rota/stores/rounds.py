"""Rounds: a batch in which one thing comes twice, cut so that a statement over a set sees each thing once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def rounds(items: Sequence[Item], key: Callable[[Item], Hashable]) -> Iterator[list[int]]:
    """Give the positions of items in rounds: in each round every key comes once, and equals keep their order."""
    left = list(range(len(items)))
    while left:
        seen: set[Hashable] = set()
        now: list[int] = []
        later: list[int] = []
        for position in left:
            name = key(items[position])
            (later if name in seen else now).append(position)
            seen.add(name)
        yield now
        left = later

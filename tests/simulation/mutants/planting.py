"""How a bug is planted: in the place of something right, for as long as a hunt lasts."""

# ruff: noqa: ANN401 - what is wrapped here has many signatures, and the wrong one has the right one's

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

from simulation.casts import MODELS, Cast

Planting = Iterator[None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A planted bug, the invariant that must notice it first, and the cast that it is planted in."""

    plant: Callable[[], AbstractContextManager[None]]
    invariant: str
    cast: Cast
    #: Where the hunt begins: a seed below which it was not found when it was last looked for.
    first: int = 0

    @property
    def name(self) -> str:
        """What the bug is called."""
        return str(getattr(self.plant, "__name__", self.plant))


MUTANTS: Final[list[Mutant]] = []


def mutant(
    invariant: str, cast: Cast = MODELS, *, first: int = 0
) -> Callable[[Callable[[], Planting]], Callable[[], Planting]]:
    """Enter a bug into the list."""

    def enter(plant: Callable[[], Planting]) -> Callable[[], Planting]:
        MUTANTS.append(Mutant(contextmanager(plant), invariant, cast, first))
        return plant

    return enter


@contextmanager
def instead(owner: Any, name: str, wrong: Callable[..., Any]) -> Iterator[None]:
    """Put something wrong in the place of something right; the wrong one is given the right one first."""
    right = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        return wrong(right, *arguments, **options)

    with patch.object(owner, name, call):
        yield

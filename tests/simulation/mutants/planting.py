"""How a bug is planted: it replaces a function, for the time of a search."""

# ruff: noqa: ANN401 - what is wrapped here has many signatures, and the wrong one has the right one's

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

from simulation.variants import MODELS, Variant

Planting = Iterator[None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A planted bug, the invariant that must be violated first, and the variant that it is planted in."""

    plant: Callable[[], AbstractContextManager[None]]
    invariant: str
    variant: Variant
    #: The first seed of the search: below it the bug was not found the last time.
    first: int = 0

    @property
    def name(self) -> str:
        """What the bug is called."""
        return str(getattr(self.plant, "__name__", self.plant))


MUTANTS: Final[list[Mutant]] = []


def mutant(
    invariant: str, variant: Variant = MODELS, *, first: int = 0
) -> Callable[[Callable[[], Planting]], Callable[[], Planting]]:
    """Add a bug to the list."""

    def enter(plant: Callable[[], Planting]) -> Callable[[], Planting]:
        MUTANTS.append(Mutant(contextmanager(plant), invariant, variant, first))
        return plant

    return enter


@contextmanager
def instead(owner: Any, name: str, wrong: Callable[..., Any]) -> Iterator[None]:
    """Replace a function by a wrong one, whose first argument is the right one."""
    right = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        return wrong(right, *arguments, **options)

    with patch.object(owner, name, call):
        yield

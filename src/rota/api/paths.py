"""Finding what stands under a path.

At most one part of a path is a name (`/v1/jobs/{id}/cancel`), so a path is found by at most a few looks into a table,
however many there are. A router that tries one pattern after the other took half of the time of reading a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Generic, TypeVar

Thing = TypeVar("Thing")
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


class Paths(Generic[Thing]):
    """Things by their paths. A path without a name goes before one with a name that would fit too."""

    def __init__(self, things: Mapping[str, Thing]) -> None:
        self._plain: dict[str, Thing] = {}
        #: By how many parts the path has, where the name is, and what the other parts are.
        self._named: dict[tuple[int, int, str], tuple[str, Thing]] = {}
        places: dict[int, set[int]] = {}
        for path, thing in things.items():
            parts = path.split("/")
            marks = [place for place, part in enumerate(parts) if "{" in part]
            if not marks:
                self._plain[path] = thing
                continue
            (place,) = marks
            name = parts.pop(place)
            if not (name.startswith("{") and name.endswith("}")):
                raise ValueError(f"{path}: only a whole part can be a name")
            key = (len(parts), place, "/".join(parts))
            if key in self._named:
                raise ValueError(f"{path} is described twice")
            self._named[key] = (name[1:-1], thing)
            places.setdefault(len(parts), set()).add(place)
        self._places = {number: sorted(known) for number, known in places.items()}

    def find(self, path: str) -> tuple[Thing, Mapping[str, str]] | None:
        """Give what stands under a path, with the names in it; None if nothing does."""
        plain = self._plain.get(path)
        if plain is not None:
            return plain, _NO_NAMES
        parts = path.split("/")
        for place in self._places.get(len(parts) - 1, ()):
            value = parts[place]
            found = self._named.get((len(parts) - 1, place, "/".join(parts[:place] + parts[place + 1 :])))
            if found is not None and value:
                return found[1], {found[0]: value}
        return None

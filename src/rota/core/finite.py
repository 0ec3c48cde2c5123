"""Check for NaN and infinite numbers, which JSON does not have.

The encoder writes them as null without an error, so a job would get None instead of a number. Callers check the values
again if the encoded text has a null, and refuse the number with its path.
"""

from __future__ import annotations

from math import isfinite


def require_finite(value: object, name: str) -> None:
    """Raise ValueError if a number within plain values (lists, mappings, numbers, texts) is not finite."""
    rest: list[tuple[str, object]] = [(name, value)]
    while rest:
        place, one = rest.pop()
        if isinstance(one, float):
            if not isfinite(one):
                raise ValueError(f"{place} is {one}, which JSON does not have; give None or a text instead")
        else:
            rest.extend(_parts(place, one))


def _parts(place: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [(f"{place}[{name!r}]", one) for name, one in value.items()]
    if isinstance(value, list | tuple):
        return [(f"{place}[{number}]", one) for number, one in enumerate(value)]
    return []

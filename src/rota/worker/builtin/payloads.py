"""Checks of the payloads of built-in jobs: each error names its field, at submission and at run time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rota.core.errors import InvalidRequest


def fields_of(payload: object, known: Iterable[str]) -> dict[str, Any]:
    """Require an object with known fields only."""
    if not isinstance(payload, dict):
        raise InvalidRequest(f"payload: must be an object, not {kind_of(payload)}", field="payload")
    allowed = sorted(known)
    for name in payload:
        if name not in allowed:
            field = f"payload.{name}"
            raise InvalidRequest(f"{field[:100]}: unknown; known are {', '.join(allowed)}", field=field[:100])
    return payload


def text_in(fields: dict[str, Any], name: str, *, longest: int, default: str | None = None) -> str:
    """Require a field to be text of bounded length."""
    value = fields.get(name, default)
    field = f"payload.{name}"
    if value is None:
        raise InvalidRequest(f"{field}: is required", field=field)
    if not isinstance(value, str):
        raise InvalidRequest(f"{field}: must be text, not {kind_of(value)}", field=field)
    if len(value) > longest:
        raise InvalidRequest(f"{field}: has {len(value):,} characters; at most {longest:,} are allowed", field=field)
    return value


def kind_of(value: object) -> str:
    """Return the name of a JSON value's type."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "an array"
        case _:
            return "an object"

"""Messages about wrong values, from those of msgspec: with the value, in words, and with what is allowed."""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from rota.core.redaction import SecretKeys, redacted

_LONGEST_SHOWN: Final = 60
_SECRET: Final = SecretKeys()
_BOUND: Final = re.compile(r"Expected `[^`]*` (>=|<=|>|<) (\S+)")
_LENGTH: Final = re.compile(r"Expected `([^`]*)` of length (>=|<=) (\d+)")
_TYPES: Final = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_FIELD: Final = re.compile(r"Object (contains unknown|missing required) field `([^`]*)`")
_BOUNDS: Final = {">=": "{} or more", "<=": "at most {}", ">": "more than {}", "<": "less than {}"}
_LENGTHS: Final = {">=": "at least", "<=": "at most"}
_WORDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def wrong_value(message: str, value: object, form: Any, field: str) -> str:  # noqa: ANN401 - any type
    """Return what is wrong with the value of a field, given msgspec's message and the type that the field has."""
    head, _, tail = message.partition(" - at `$")
    place = tail.rstrip("`").lstrip(".")
    reason = _reason(head, form)
    if place:
        return f"{reason} (at {place})"
    shown = _shown(value, field)
    return f"{shown} will not do: {reason}" if shown else reason


def _reason(message: str, form: Any) -> str:  # noqa: ANN401 - any type
    if found := _BOUND.fullmatch(message):
        return f"it must be {_BOUNDS[found[1]].format(found[2].removesuffix('.0'))}"
    if found := _LENGTH.fullmatch(message):
        unit = "characters" if "str" in found[1] else "entries"
        return "it must not be empty" if found.group(2, 3) == (">=", "1") else (
            f"it must have {_LENGTHS[found[2]]} {found[3]} {unit}"
        )  # fmt: skip
    if found := _TYPES.fullmatch(message):
        needed = " or ".join(_WORDS.get(one, one) for one in found[1].split(" | ") if one != "null")
        given = "" if found[2] == "float" else f", not {_WORDS.get(found[2], found[2])}"
        return f"it must be {needed or 'null'}{given}"
    if message.startswith("Invalid enum value") and (choices := _choices(form)):
        return f"it must be one of {', '.join(choices)}"
    if found := _FIELD.fullmatch(message):
        return (
            f"unknown field {found[2]!r}" if found[1] == "contains unknown" else f"the field {found[2]!r} is required"
        )
    if message == "Invalid RFC3339 encoded datetime":
        return "it must be a time in RFC 3339, as in 2030-01-31T08:00:00Z"
    return message


def _choices(form: Any) -> list[str]:  # noqa: ANN401 - any type
    """List the values of an enumeration or a `Literal`, also as `X | None` and of lists of them."""
    if isinstance(form, type) and issubclass(form, Enum):
        return [str(one.value) for one in form]
    if get_origin(form) is Literal:
        return [str(one) for one in get_args(form)]
    parts = get_args(form)[:1] if get_origin(form) is Annotated else get_args(form)
    return [choice for part in parts for choice in _choices(part)]


def _shown(value: object, field: str) -> str:
    """Show a single value; nothing of lists and objects, nor of what may be secret."""
    if not isinstance(value, str | int | float) or _SECRET.match(field.rpartition(".")[2]):
        return ""
    text = redacted(repr(value) if isinstance(value, str) else json.dumps(value))
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"

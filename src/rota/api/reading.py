"""Reading JSON from outside: how much of it, how deep, and whether it is what was asked for.

The text is first read as plain values, which settles that it is JSON, within the limits and without surprises (a name
twice in one object, a number no float can hold), also where it is later kept as it is. Then it is read as the form that
the route takes. Only if that fails is each field tried by itself, so that all wrong ones can be named at once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import count, islice
from typing import Any, Final, TypeVar, get_args

import msgspec
from msgspec import DecodeError, Raw, Struct, ValidationError

from rota.api.errors import Refusal, invalid, malformed
from rota.api.settings import Limits
from rota.core.submission import UNAVAILABLE

T = TypeVar("T")


#: How many errors are listed; for how many unknown names, and how long ones, a suggestion is looked for.
MOST_ERRORS: Final = 20
_MOST_HINTS: Final = 3
_LONGEST_HINTED: Final = 40
_BLOCK: Final = 1_000

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_decoders: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def decoder(form: type[T]) -> msgspec.json.Decoder[T]:
    """Make the reader of a form once."""
    known = _decoders.get(form)
    if known is None:
        known = _decoders[form] = msgspec.json.Decoder(form)
    return known


def read(body: bytes, form: type[T], limits: Limits) -> T:
    """Read a request, or refuse it naming each wrong field."""
    check(body, limits)
    return take(body, form)


def take(body: bytes | Raw, form: type[T]) -> T:
    """Read what is known to be JSON as a form."""
    known = _decoders.get(form) or decoder(form)
    try:
        form_read: T = known.decode(body)
    except ValidationError as error:
        raise invalid(_listed(bytes(body), form) or [("body", str(error))]) from None
    return form_read


def check(body: bytes, limits: Limits) -> None:
    """Refuse what is not JSON or goes beyond the limits."""
    try:
        tree = _decode(body)
    except RecursionError:
        raise too_deep(limits) from None
    except ValidationError as error:
        raise invalid([("body", f"{error}: no number here may be beyond what a double or 4,300 digits hold")]) from None
    except (DecodeError, UnicodeDecodeError) as error:
        raise malformed(f"the body is not JSON: {error}") from None
    # Cheap bounds first: hardly any request comes near them.
    may_be_deep = body.count(b"{") + body.count(b"[") > limits.depth
    if may_be_deep or (len(body) > limits.keys and body.count(b":") > limits.keys):
        depth, names = _measure(tree, limits.depth)
        if depth > limits.depth:
            raise too_deep(limits)
        if names > limits.keys:
            raise Refusal(422, "too_many_keys", f"the body has {names} names; {limits.keys} are allowed")
    # A name that stood twice is gone from the tree, and with it two quotes. Only an escaped quote could make up for
    # them; where there may be one the slow way decides.
    # To write long numbers again takes longer than that.
    if (
        b"\\u" in body
        or (len(body) > 2 * _BLOCK and _has_long_number(body))
        or _encode(tree).count(b'"') != body.count(b'"')
    ):
        _refuse_twins(body)


def _has_long_number(body: bytes) -> bool:
    """Say whether a number may be longer than two blocks of digits: it fills at least one."""
    return any(body[start : start + _BLOCK].isdigit() for start in range(_BLOCK, len(body) - _BLOCK, _BLOCK))


def too_deep(limits: Limits) -> Refusal:
    """Refuse nesting beyond the limit."""
    return Refusal(422, "too_deep", f"the body is nested deeper than {limits.depth} levels")


def _measure(tree: Any, deepest: int) -> tuple[int, int]:  # noqa: ANN401 - whatever JSON holds
    """Count the levels of a tree and its names, level by level, each value once; stop beyond the deepest allowed."""
    names = depth = 0
    level = [tree] if type(tree) is dict or type(tree) is list else []
    while level and depth <= deepest:
        depth += 1
        below: list[Any] = []
        for one in level:
            if type(one) is dict:
                names += len(one)
                below += [value for value in one.values() if type(value) is dict or type(value) is list]
            elif one:
                below += [value for value in one if type(value) is dict or type(value) is list]
        level = below
    return depth, names


def _refuse_twins(body: bytes) -> None:
    """Refuse a name that stands twice in one object: readers do not agree on which of them counts."""

    def unique(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            ((twin, _),) = Counter(names).most_common(1)
            raise invalid([(twin[:100], "this name stands twice in one object")])

    json.loads(body, object_pairs_hook=unique)


def _listed(body: bytes, form: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - any type
    """List what is wrong, up to so many errors: whoever sends ten thousand unknown names needs no more to see why."""
    found = list(islice(_wrong(body, form, "", count(1)), MOST_ERRORS + 1))
    if len(found) > MOST_ERRORS:
        found[MOST_ERRORS:] = [("body", f"and more; only the first {MOST_ERRORS} errors are listed")]
    return found


def _wrong(body: bytes, form: Any, path: str, unknown: Iterator[int]) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    """Name what is wrong with each field of a form."""
    struct = _struct_in(form)
    try:
        given = msgspec.json.decode(body, type=dict[str, Raw])
    except ValidationError:
        given = None
    if struct is None or given is None:
        try:
            msgspec.json.decode(body, type=form)
        except ValidationError as error:
            yield path or "body", _plain(error)
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    tag_field = struct.__struct_config__.tag_field
    for name in given:
        if name not in fields and name != tag_field:
            hint = meant(name, list(fields)) if next(unknown) <= _MOST_HINTS else ""
            yield _joined(path, name), UNAVAILABLE.get(name) or f"unknown field{hint}"
    for name, field in fields.items():
        if name in given:
            yield from _wrong(bytes(given[name]), field.type, _joined(path, name), unknown)
        elif field.required:
            yield _joined(path, name), "this field is required"


def meant(word: str, known: list[str]) -> str:
    """Suggest what may have been meant by a short word: to compare words takes time that grows with their length."""
    if len(word) > _LONGEST_HINTED:
        return ""
    close = get_close_matches(word, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _struct_in(form: Any) -> type[Struct] | None:  # noqa: ANN401 - any type
    """Find the one form within a type, if there is just one."""
    if isinstance(form, type) and issubclass(form, Struct):
        return form
    found = [arg for arg in get_args(form) if isinstance(arg, type) and issubclass(arg, Struct)]
    others = [arg for arg in get_args(form) if arg not in found and arg is not type(None)]
    return found[0] if len(found) == 1 and not others else None


def _joined(path: str, name: str) -> str:
    return f"{path}.{name[:100]}" if path else name[:100]


def _plain(error: ValidationError) -> str:
    """Give msgspec's sentence without the path, which stands beside it."""
    text = str(error)
    head, _, tail = text.partition(" - at `$")
    place = tail.rstrip("`")
    return f"{head} (at {place.lstrip('.')})" if place else head

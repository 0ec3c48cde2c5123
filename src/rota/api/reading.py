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
from typing import Any, Final, TypeVar, get_args

import msgspec
from msgspec import DecodeError, Raw, Struct, ValidationError

from rota.api.errors import Refusal, invalid, malformed
from rota.api.settings import Limits

T = TypeVar("T")


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
        raise invalid(list(_wrong(bytes(body), form, "")) or [("body", str(error))]) from None
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
    if body.count(b"{") + body.count(b"[") > limits.depth and _depth(tree) > limits.depth:
        raise too_deep(limits)
    if len(body) > limits.keys and body.count(b":") > limits.keys and (count := _names(tree)) > limits.keys:
        raise Refusal(422, "too_many_keys", f"the body has {count} names; {limits.keys} are allowed")
    # A name that stood twice is gone from the tree, and with it two quotes. Only an escaped quote could make up for
    # them; where there may be one the slow way decides.
    if b"\\u" in body or _encode(tree).count(b'"') != body.count(b'"'):
        _refuse_twins(body)


def too_deep(limits: Limits) -> Refusal:
    """Refuse nesting beyond the limit."""
    return Refusal(422, "too_deep", f"the body is nested deeper than {limits.depth} levels")


def _names(tree: Any) -> int:  # noqa: ANN401 - whatever JSON holds
    count = 0
    rest = [tree]
    while rest:
        one = rest.pop()
        values = one
        if type(one) is dict:
            count += len(one)
            values = one.values()
        elif type(one) is not list:
            continue
        rest.extend([value for value in values if type(value) is dict or type(value) is list])
    return count


def _depth(tree: Any) -> int:  # noqa: ANN401 - whatever JSON holds
    deepest = 0
    rest = [(tree, 1)]
    while rest:
        one, level = rest.pop()
        values = one.values() if type(one) is dict else one if type(one) is list else None
        if values is not None:
            deepest = max(deepest, level)
            rest.extend((value, level + 1) for value in values)
    return deepest


def _refuse_twins(body: bytes) -> None:
    """Refuse a name that stands twice in one object: readers do not agree on which of them counts."""

    def unique(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            ((twin, _),) = Counter(names).most_common(1)
            raise invalid([(twin[:100], "this name stands twice in one object")])

    json.loads(body, object_pairs_hook=unique)


def _wrong(body: bytes, form: Any, path: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - any type
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
            yield _joined(path, name), f"unknown field{meant(name, list(fields))}"
    for name, field in fields.items():
        if name in given:
            yield from _wrong(bytes(given[name]), field.type, _joined(path, name))
        elif field.required:
            yield _joined(path, name), "this field is required"


def meant(word: str, known: list[str]) -> str:
    """Suggest what may have been meant."""
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

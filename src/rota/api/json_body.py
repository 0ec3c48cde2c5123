"""Decoding of JSON request bodies: limits, checks, and errors that name every wrong field.

The text is first decoded to plain values. This settles that it is JSON within the limits, with no name twice in one
object and no number beyond a double, also where it is later stored as it is. Then it is decoded to the form of the
route. Only if that fails is each field tried by itself, so that one error lists all wrong fields.

Large bodies are decoded off the event loop. A megabyte of hostile JSON (hundreds of thousands of small lists) takes up
to a third of a second. One thread decodes such bodies, one after the other, so that they share the memory it takes.
Each step written in C (decoding, freeing) holds the interpreter for some 30 ms at most; a body with more names, arrays
and objects than are allowed is refused before it is decoded. The garbage collector would make that several times as
long, since it walks over all lists again and again while they are made; so it is switched off meanwhile: a JSON tree
has no cycles.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches
from itertools import count, islice
from typing import Any, Final, TypeVar, get_args

import msgspec
from msgspec import DecodeError, Raw, Struct, ValidationError

from rota.api.errors import HttpError, invalid, malformed
from rota.api.settings import Limits
from rota.api.value_errors import wrong_value

T = TypeVar("T")
#: Bodies up to this size are decoded on the loop: that takes no longer than handing them to the thread and back.
LARGE_BYTES: Final = 65_536
#: How many errors are listed; for how many unknown names, and of which length, a suggestion is made.
MOST_ERRORS: Final = 20
_MOST_HINTS: Final = 3
_LONGEST_HINTED: Final = 40
_BLOCK: Final = 1_000

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_thread: Final = ThreadPoolExecutor(1, thread_name_prefix="rota-large-body")
_decoders: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


async def decode_body(body: bytes, form: type[T], limits: Limits) -> T:
    """Check and decode a JSON body; a large one on a thread, so that it does not block the event loop."""
    if len(body) <= LARGE_BYTES:
        return decode(body, form, limits)
    return await asyncio.get_running_loop().run_in_executor(_thread, _decode_without_gc, body, form, limits)


def _decode_without_gc(body: bytes, form: type[T], limits: Limits) -> T:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return decode(body, form, limits)
    finally:
        if was_enabled:
            gc.enable()


def decode(body: bytes, form: type[T], limits: Limits) -> T:
    """Check and decode a body."""
    check_json(body, limits)
    return decode_checked(body, form)


def decode_checked(body: bytes | Raw, form: type[T]) -> T:
    """Decode what is known to be JSON to a form; the error names each wrong field."""
    decoder = _decoders.get(form) or _decoders.setdefault(form, msgspec.json.Decoder(form))
    try:
        value: T = decoder.decode(body)
    except ValidationError as error:
        raise invalid(_list_errors(bytes(body), form) or [("body", str(error))]) from None
    return value


def check_json(body: bytes, limits: Limits) -> None:
    """Refuse what is not JSON or goes beyond the limits."""
    if len(body) > LARGE_BYTES:
        _refuse_many_values(body, limits)
    try:
        tree = _decode(body)
    except RecursionError:
        raise too_deep(limits) from None
    except ValidationError as error:
        raise invalid(
            [("body", f"{error}: a number must be within the range of a double and have at most 4,300 digits")]
        ) from None
    except (DecodeError, UnicodeDecodeError) as error:
        raise malformed(f"the body is not JSON: {error}") from None
    # Cheap upper bounds first: hardly any request comes near them.
    may_be_deep = body.count(b"{") + body.count(b"[") > limits.depth
    if may_be_deep or (len(body) > limits.keys and body.count(b":") > limits.keys):
        depth, names = _measure(tree, limits.depth)
        if depth > limits.depth:
            raise too_deep(limits)
        if names > limits.keys:
            raise _too_many_names(names, limits)
    # A repeated name is lost in the tree, and with it two quotes. Only an escaped quote could make up for them; where
    # there may be one, the slow check decides. So it does for long numbers, which take even longer to encode again.
    if (
        b"\\u" in body
        or (len(body) > 2 * _BLOCK and _has_long_number(body))
        or _encode(tree).count(b'"') != body.count(b'"')
    ):
        _refuse_repeated_names(body)


def _refuse_many_values(body: bytes, limits: Limits) -> None:
    """Refuse a large body by what it holds outside of strings: decoding it would hold the interpreter too long."""
    if body.count(b":") <= limits.keys and body.count(b"[") + body.count(b"{") <= limits.containers:
        return
    # What stands before the first quote, after the second, and so on, once escaped quotes are gone.
    outside = b"".join(body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    if (names := outside.count(b":")) > limits.keys:
        raise _too_many_names(names, limits)
    if (containers := outside.count(b"[") + outside.count(b"{")) > limits.containers:
        raise HttpError(
            422,
            "too_many_containers",
            f"the body has {containers} arrays and objects; {limits.containers} are allowed",
        )


def _too_many_names(names: int, limits: Limits) -> HttpError:
    return HttpError(422, "too_many_keys", f"the body has {names} names; {limits.keys} are allowed")


def _has_long_number(body: bytes) -> bool:
    """Return whether there may be a number longer than two blocks: it fills at least one whole block."""
    return any(body[start : start + _BLOCK].isdigit() for start in range(_BLOCK, len(body) - _BLOCK, _BLOCK))


def too_deep(limits: Limits) -> HttpError:
    return HttpError(422, "too_deep", f"the body is nested deeper than {limits.depth} levels")


def _measure(tree: Any, deepest: int) -> tuple[int, int]:  # noqa: ANN401 - whatever JSON holds
    """Count the levels and the names of a tree, level by level; stop beyond the deepest level allowed."""
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


def _refuse_repeated_names(body: bytes) -> None:
    """Refuse a name that is repeated in one object: JSON parsers do not agree on which of the values counts."""

    def unique(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            ((repeated, _),) = Counter(names).most_common(1)
            raise invalid([(repeated[:100], "this name is repeated in one object")])

    json.loads(body, object_pairs_hook=unique)


def _list_errors(body: bytes, form: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - any type
    """List the errors of a body, up to `MOST_ERRORS`."""
    errors = list(islice(_field_errors(body, form, "", count(1)), MOST_ERRORS + 1))
    if len(errors) > MOST_ERRORS:
        errors[MOST_ERRORS:] = [("body", f"and more; only the first {MOST_ERRORS} errors are listed")]
    return errors


def _field_errors(body: bytes, form: Any, path: str, unknown: Iterator[int]) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    """Return the errors of each field of a form; `unknown` counts the unknown names."""
    struct = _struct_in(form)
    try:
        given = msgspec.json.decode(body, type=dict[str, Raw])
    except ValidationError:
        given = None
    if struct is None or given is None:
        try:
            msgspec.json.decode(body, type=form)
        except ValidationError as error:
            yield path or "body", wrong_value(str(error), _decode(body), form, path)
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    tag_field = struct.__struct_config__.tag_field
    for name in given:
        if name not in fields and name != tag_field:
            hint = did_you_mean(name, list(fields)) if next(unknown) <= _MOST_HINTS else ""
            yield _joined(path, name), f"unknown field{hint}"
    for name, field in fields.items():
        if name in given:
            yield from _field_errors(bytes(given[name]), field.type, _joined(path, name), unknown)
        elif field.required:
            yield _joined(path, name), "this field is required"


def did_you_mean(word: str, known: list[str]) -> str:
    """Suggest the closest known word, unless the word is long: comparing takes time that grows with its length."""
    if len(word) > _LONGEST_HINTED:
        return ""
    close = get_close_matches(word, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _struct_in(form: Any) -> type[Struct] | None:  # noqa: ANN401 - any type
    """Return the msgspec struct that a type annotation names, alone or as `X | None`; None if there is not one."""
    if isinstance(form, type) and issubclass(form, Struct):
        return form
    structs = [arg for arg in get_args(form) if isinstance(arg, type) and issubclass(arg, Struct)]
    others = [arg for arg in get_args(form) if arg not in structs and arg is not type(None)]
    return structs[0] if len(structs) == 1 and not others else None


def _joined(path: str, name: str) -> str:
    return f"{path}.{name[:100]}" if path else name[:100]

"""Annotations of handlers: the types that JSON values are checked against and converted to.

Each annotation is evaluated by itself: one with a name that exists for type checkers only is ignored, and the others
are kept. An annotation is checked only if msgspec can make its values from JSON, or if the type has `model_validate`
(Pydantic); a value for any other annotation is passed unchanged.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import inspect as forms

#: Containers of which an item may be a bool where an int is annotated.
_OF_ITEMS: Final = (list, tuple, set, frozenset, collections.abc.Sequence)
_OF_VALUES: Final = (dict, collections.abc.Mapping)
_UNIONS: Final = (typing.Union, types.UnionType)


def annotations_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the annotations of a function that can be evaluated, also of a `partial` and of a callable object."""
    annotated = _annotated(function)
    try:
        return typing.get_type_hints(annotated, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations may name anything, also what exists only for a type checker
        return _one_by_one(annotated)


def _annotated(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - whatever has the annotations
    function = _unwrapped(function)
    while isinstance(function, partial):
        function = _unwrapped(function.func)
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return type(function).__call__


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    inner: Callable[..., Any] = inspect.unwrap(function, stop=lambda one: hasattr(one, "__signature__"))
    return inner


def _one_by_one(annotated: Any) -> Mapping[str, Any]:  # noqa: ANN401 - as above
    known: dict[str, Any] = {}
    names = getattr(annotated, "__globals__", {})
    for name, annotation in getattr(annotated, "__annotations__", {}).items():
        alone: Any = types.SimpleNamespace(__annotations__={name: annotation})
        with suppress(Exception):
            known |= typing.get_type_hints(alone, names, include_extras=True)
    return known


def forms_of(hint: Any, *, is_optional: bool = False) -> tuple[Any, ...]:  # noqa: ANN401 - any annotation
    """Return the types that values for an annotation are converted to: several for a union that msgspec refuses.

    `Any` means no check. A bool is an int, as in Python. A default of None makes an annotation optional.
    """
    if hint is Any:
        return (Any,)
    whole = typing.Optional[hint] if is_optional else hint  # noqa: UP045 - not every annotation supports |
    for form in (_with_bools(whole), whole):
        if _is_readable(form):
            return (form,)
    parts = typing.get_args(whole) if typing.get_origin(whole) in _UNIONS else ()
    return parts if parts and all(map(_is_readable, parts)) else (Any,)


def _with_bools(hint: Any) -> Any:  # noqa: ANN401 - any annotation
    """Return an annotation that accepts a bool wherever it accepts an int or a float."""
    if hint is int or hint is float:
        return hint | bool
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        return typing.Union[tuple(map(_with_bools, parts))]  # noqa: UP007 - of any number of parts
    if origin in _OF_ITEMS and parts:
        return origin[tuple(map(_with_bools, parts))]
    if origin in _OF_VALUES and parts:
        return origin[parts[0], _with_bools(parts[1])]
    return hint


def _is_readable(hint: Any) -> bool:  # noqa: ANN401 - any annotation
    try:
        return not _has_foreign(forms.type_info(hint))
    except Exception:  # noqa: BLE001 - values of types that it does not know are passed unchanged
        return False


def _has_foreign(form: forms.Type) -> bool:
    """Whether the annotation contains a type that cannot be made from JSON. Fields of classes are not checked."""
    if isinstance(form, forms.CustomType):
        return not hasattr(form.cls, "model_validate")
    inner = [getattr(form, name, None) for name in ("item_type", "key_type", "value_type", "type")]
    inner += [*getattr(form, "types", ()), *getattr(form, "item_types", ())]
    return any(_has_foreign(one) for one in inner if isinstance(one, forms.Type))


def read(value: Any, form: Any) -> Any:  # noqa: ANN401 - as annotated
    """Convert a JSON value to a type; raise ValueError or TypeError if it does not fit."""
    return msgspec.convert(value, form, str_keys=True, dec_hook=decode_object)


def decode_object(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any type
    """Convert to a type that msgspec does not know: a Pydantic model, or a value that already has the type."""
    validate = getattr(kind, "model_validate", None)
    if validate is not None:
        return validate(value)
    if isinstance(kind, type) and isinstance(value, kind):
        return value
    raise ValueError(f"{getattr(kind, '__name__', kind)} cannot be made from JSON")


def encode_object(value: Any) -> Any:  # noqa: ANN401 - any object
    """Encode an object that msgspec does not know: a Pydantic model; refuse any other."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__qualname__} is not JSON")
    return dump(mode="json")


def distance(value: Any, written: Any) -> tuple[int, int]:  # noqa: ANN401 - any value
    """Count the fields of a JSON object that the converted value does not have, and those that the object lacks."""
    if not isinstance(written, dict):
        return (0, 0)
    fields = getattr(forms.type_info(type(value)), "fields", None)
    if fields is not None:
        names = {field.encode_name for field in fields}
    else:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=encode_object)
        names = set(plain) if isinstance(plain, dict) else set()
    return len(written.keys() - names), len(names - written.keys())

"""Arguments and results as JSON: checked when a job is submitted, read back as what the function promises."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, Final

import msgspec

from rota.core.errors import InvalidRequest

_encode: Final = msgspec.json.Encoder().encode
_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Form:
    """What a function can be called with."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature = inspect.signature(function)
        kinds = [one.kind for one in self._signature.parameters.values()]
        #: So many arguments by position surely fit; None if there is no such number.
        self.places = len(kinds) if all(kind in _POSITIONAL for kind in kinds) else None

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise TypeError for arguments that do not fit. To bind them costs more than to write them down."""
        self._signature.bind(*args, **kwargs)


def encode_call(name: str, form: Form, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Write a call down; refuse arguments that do not fit the function or cannot be JSON."""
    try:
        if kwargs or len(args) != form.places:
            form.check(args, kwargs)
    except TypeError as error:
        raise InvalidRequest(f"task {name!r}: {error}", field="payload") from None
    try:
        if kwargs:
            return _encode({"args": args, "kwargs": kwargs}).decode()
        # The same, in two thirds of the time.
        return f'{{"args":{_encode(args).decode()},"kwargs":{{}}}}'
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"task {name!r}: an argument cannot be JSON: {error}", field="payload") from None


def decoder_of(function: Callable[..., Any]) -> Callable[[str], Any]:
    """Give what reads a result back as the type the function promises; plain JSON where it promises none we know."""
    promised = _promised(function)

    def decode(text: str) -> Any:  # noqa: ANN401 - as promised
        try:
            return msgspec.json.decode(text, type=promised)
        except (msgspec.ValidationError, TypeError):
            return msgspec.json.decode(text)

    return decode


def _promised(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - a type
    try:
        return typing.get_type_hints(function).get("return", Any)
    except (NameError, TypeError):
        return Any

"""Arguments and results as JSON: checked when a job is submitted, read back as what the function promises."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from rota.core.errors import InvalidRequest


def encode_call(name: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Write a call down; refuse arguments that do not fit the function's signature or cannot be JSON."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidRequest(f"task {name!r}: {error}", field="payload") from None
    try:
        return msgspec.json.encode({"args": args, "kwargs": kwargs}).decode()
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

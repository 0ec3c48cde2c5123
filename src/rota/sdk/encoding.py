"""Arguments and results as JSON: checked against the function's annotations when a job is submitted."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

import msgspec

from rota.core.errors import InvalidRequest
from rota.worker.annotations import annotations_of
from rota.worker.arguments import CallSignature, WrongArguments, pack

_encode: Final = msgspec.json.Encoder().encode
#: The payload of a call without arguments.
NO_ARGUMENTS: Final = '{"args":[],"kwargs":{}}'
#: Types whose values need no check: JSON keeps them as they are.
_EXACT: Final = frozenset({int, str, bool})
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class TaskSignature:
    """The parameters and the result type of a task's function.

    Read when first needed: annotations may name classes that are defined later.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _calling(self) -> CallSignature:
        return CallSignature(self._function)

    @cached_property
    def exact_types(self) -> tuple[Any, ...] | None:
        """The types of positional arguments that need no check; None if there are others."""
        annotations = self._calling.positional_annotations
        return annotations if annotations is not None and _EXACT.issuperset(annotations) else None

    @cached_property
    def untyped_count(self) -> int | None:
        """The number of positional arguments if none of them is annotated; None otherwise."""
        annotations = self._calling.positional_annotations
        return len(annotations) if annotations is not None and all(one is Any for one in annotations) else None

    @cached_property
    def decode(self) -> Callable[[str], Any]:
        return decoder_of(self._function)

    @cached_property
    def takes_one_argument(self) -> bool:
        """Whether the function can be called with one positional argument."""
        try:
            inspect.signature(self._function).bind(None)
        except TypeError:
            return False
        return True

    @cached_property
    def positional_names(self) -> tuple[str, ...]:
        """The names of the parameters that positional arguments go to."""
        parameters = inspect.signature(self._function).parameters.values()
        return tuple(one.name for one in parameters if one.kind in _POSITIONAL)

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The defaults of parameters, as JSON; those that cannot be written as JSON are left out."""
        values: dict[str, Any] = {}
        for one in inspect.signature(self._function).parameters.values():
            if one.default is not inspect.Parameter.empty:
                with suppress(TypeError, ValueError, RecursionError):
                    values[one.name] = msgspec.json.decode(_encode(one.default))
        return values

    def require(self, task: str, names: Sequence[str]) -> None:
        """Refuse names that no argument of the function can have."""
        parameters = inspect.signature(self._function).parameters
        if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
            return
        for name in names:
            if name not in parameters:
                known = ", ".join(parameters) or "none"
                raise InvalidRequest(
                    f"task {task!r}: unique_by: the function has no argument {name!r}; its arguments: {known}",
                    field="unique_by",
                )

    def check(self, payload: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Refuse a call that the worker would refuse, by decoding it as the worker does."""
        self._calling.check(payload, args, kwargs)

    def arguments(self, task: str, payload: str) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Decode a payload as the worker does; refuse one that the worker would refuse."""
        try:
            return self._calling.decode(payload)
        except WrongArguments as error:
            raise InvalidRequest(f"task {task!r}: {error}", field="payload") from None


def encode_call(name: str, signature: TaskSignature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Encode the arguments of a call; refuse those that do not fit the function or cannot be JSON."""
    try:
        if not kwargs and tuple(map(type, args)) == signature.exact_types:
            return f'{{"args":{_encode(args).decode()},"kwargs":{{}}}}'
        payload = pack(args, kwargs)
        if kwargs or len(args) != signature.untyped_count:
            signature.check(payload, args, kwargs)
    except WrongArguments as error:
        raise InvalidRequest(f"task {name!r}: {error}", field="payload") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"task {name!r}: an argument cannot be written as JSON: {error}", field="payload"
        ) from None
    return payload


def decoder_of(function: Callable[..., Any]) -> Callable[[str], Any]:
    """Return a decoder of results into the function's return type; plain JSON if that type is missing or unknown."""
    return_type = annotations_of(function).get("return", Any)

    def decode(text: str) -> Any:  # noqa: ANN401 - as annotated
        try:
            return msgspec.json.decode(text, type=return_type)
        except (msgspec.ValidationError, TypeError):
            return msgspec.json.decode(text)

    return decode


def json_text(payload: object) -> str:
    """Write a payload as JSON, or refuse it."""
    try:
        return json.dumps(payload, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"payload: cannot be written as JSON: {error}; give plain values", field="payload"
        ) from None

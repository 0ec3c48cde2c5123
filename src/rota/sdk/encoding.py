"""Arguments and results as JSON: checked against the function's annotations when a job is submitted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from rota.core.errors import InvalidRequest
from rota.worker.annotations import annotations_of
from rota.worker.arguments import CallSignature, WrongArguments, pack

_encode: Final = msgspec.json.Encoder().encode
#: Types whose values need no check: JSON keeps them as they are.
#: The payload of a call without arguments.
NO_ARGUMENTS: Final = '{"args":[],"kwargs":{}}'
_EXACT: Final = frozenset({int, str, bool})


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
        wanted = self._calling.wanted
        return wanted if wanted is not None and _EXACT.issuperset(wanted) else None

    @cached_property
    def untyped_count(self) -> int | None:
        """The number of positional arguments if none of them is annotated; None otherwise."""
        wanted = self._calling.wanted
        return len(wanted) if wanted is not None and all(one is Any for one in wanted) else None

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

    def check(self, payload: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Refuse a call that the worker would refuse, by decoding it as the worker does."""
        self._calling.check(payload, args, kwargs)


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
    """Give a decoder of results into the function's return type; plain JSON if that type is missing or unknown."""
    return_type = annotations_of(function).get("return", Any)

    def decode(text: str) -> Any:  # noqa: ANN401 - as annotated
        try:
            return msgspec.json.decode(text, type=return_type)
        except (msgspec.ValidationError, TypeError):
            return msgspec.json.decode(text)

    return decode

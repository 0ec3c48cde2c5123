"""Arguments and results as JSON: checked when a job is submitted, read back as what the function promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from rota.core.errors import InvalidRequest
from rota.worker.annotations import annotations_of
from rota.worker.calling import Calling, WrongArguments, pack

_encode: Final = msgspec.json.Encoder().encode
#: Types whose values are what they should be, and stay so as JSON.
_EXACT: Final = frozenset({int, str, bool})


class Form:
    """What a function takes and gives. Found out when it is first needed: annotations may name what comes later."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _calling(self) -> Calling:
        return Calling(self._function)

    @cached_property
    def exact(self) -> tuple[Any, ...] | None:
        """The types of arguments that surely fit, given by position: told at a glance. None if there are none such."""
        wanted = self._calling.wanted
        return wanted if wanted is not None and _EXACT.issuperset(wanted) else None

    @cached_property
    def loose(self) -> int | None:
        """So many arguments by position surely fit, whatever they are: no annotation says more. None if one does."""
        wanted = self._calling.wanted
        return len(wanted) if wanted is not None and all(one is Any for one in wanted) else None

    @cached_property
    def decode(self) -> Callable[[str], Any]:
        """What reads a result back."""
        return decoder_of(self._function)

    def check(self, payload: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Refuse a call that the worker would refuse: it is read as the worker will read it."""
        self._calling.check(payload, args, kwargs)


def encode_call(name: str, form: Form, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Write a call down; refuse arguments that do not fit the function or cannot be JSON."""
    try:
        if not kwargs and tuple(map(type, args)) == form.exact:
            return f'{{"args":{_encode(args).decode()},"kwargs":{{}}}}'
        payload = pack(args, kwargs)
        if kwargs or len(args) != form.loose:
            form.check(payload, args, kwargs)
    except WrongArguments as error:
        raise InvalidRequest(f"task {name!r}: {error}", field="payload") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"task {name!r}: an argument cannot be JSON: {error}", field="payload") from None
    return payload


def decoder_of(function: Callable[..., Any]) -> Callable[[str], Any]:
    """Give what reads a result back as the type the function promises; plain JSON where it promises none we know."""
    promised = annotations_of(function).get("return", Any)

    def decode(text: str) -> Any:  # noqa: ANN401 - as promised
        try:
            return msgspec.json.decode(text, type=promised)
        except (msgspec.ValidationError, TypeError):
            return msgspec.json.decode(text)

    return decode

"""From a payload to a call: which arguments a function gets, checked and converted by its annotations.

A payload ``{"args": [...], "kwargs": {...}}`` is a call as Python wrote it. Any other payload came from elsewhere: an
object becomes keyword arguments where the function can take them, and everything else is the one positional argument.
What does not fit is the submitter's mistake: trying again cannot mend it.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, Final

import msgspec

from rota.worker.verdict import Permanent

Call = tuple[Sequence[Any], Mapping[str, Any]]
_NOTHING: Final[Call] = ((), {})
_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_KEYWORD: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_CALL_KEYS: Final = frozenset({"args", "kwargs"})
#: Whose values are what they should be if they are of exactly this type: no need to convert.
_EXACT: Final = frozenset({int, str, bool, dict, list})


class WrongArguments(Permanent):
    """The payload does not fit the function."""


class NotJson(Permanent):
    """What the handler returned cannot be kept."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter, and what its annotation asks for (`Any` where it asks for nothing we know)."""

    name: str
    wanted: Any

    def take(self, value: Any) -> Any:  # noqa: ANN401 - as annotated
        """Convert a JSON value to what is asked for."""
        wanted = self.wanted
        if wanted is Any or (type(value) is wanted and wanted in _EXACT):
            return value
        try:
            return msgspec.convert(value, wanted, dec_hook=_revive)
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            raise WrongArguments(f"argument {self.name!r}: {error}") from None


class Calling:
    """How one function is called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature = inspect.signature(function)
        hints = _hints(function)
        parameters = self._signature.parameters.values()
        known = {one.name: Argument(one.name, hints.get(one.name, Any)) for one in parameters}
        self._positional = [known[one.name] for one in parameters if one.kind in _POSITIONAL]
        self._named = {one.name: known[one.name] for one in parameters if one.kind in _KEYWORD}
        self._rest = next((known[one.name] for one in parameters if one.kind is Parameter.VAR_POSITIONAL), None)
        self._others = next((known[one.name] for one in parameters if one.kind is Parameter.VAR_KEYWORD), None)
        self._name = getattr(function, "__name__", "the handler")
        self._takes_nothing = self._fits((), {})
        #: The names that must be given, where all can be: whatever lies between the two fits without a closer look.
        self._required = frozenset(one.name for one in parameters if one.default is Parameter.empty)
        self._can_be_named = len(self._named) == len(parameters)
        self._usual = _usual_decoder(self._positional, len(parameters))

    def decode(self, payload: str) -> Call:
        """Read a payload as a call of the function."""
        if self._usual is not None and payload.startswith('{"args":'):
            try:
                call = self._usual.decode(payload)
            except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
                pass  # not that usual, or wrong: the long way says which
            else:
                if not call.kwargs:
                    return call.args, {}
        return self._decode(payload)

    def _decode(self, payload: str) -> Call:
        try:
            value = msgspec.json.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise WrongArguments(f"the payload is not JSON: {error}") from None
        if type(value) is dict and _is_call(value):
            return self.convert(value.get("args", ()), value.get("kwargs", {}))
        if value is None and self._takes_nothing:
            return _NOTHING
        if type(value) is dict and self._can_be_named and self._required <= value.keys() <= self._named.keys():
            return (), {name: self._named[name].take(given) for name, given in value.items()}
        if type(value) is dict and self._fits((), value):
            return self.convert((), value)
        return self.convert((value,), {})

    def convert(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> Call:
        """Check a call and convert its arguments."""
        if len(arguments) > len(self._positional) and self._rest is None:
            self._refuse(arguments, named)
        taken = [argument.take(value) for argument, value in zip(self._positional, arguments, strict=False)]
        if len(arguments) > len(taken) and self._rest is not None:
            taken += [self._rest.take(value) for value in arguments[len(taken) :]]
        # Cheap for the usual call, in which every parameter is given by position; the rest is looked at closely.
        if named or len(taken) != len(self._signature.parameters):
            if not self._fits(taken, named):
                self._refuse(arguments, named)
            named = {
                name: (self._named.get(name) or self._others_as(name)).take(value) for name, value in named.items()
            }
        return taken, named

    def _others_as(self, name: str) -> Argument:
        return Argument(name, Any if self._others is None else self._others.wanted)

    def _fits(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> bool:
        try:
            self._signature.bind(*arguments, **named)
        except TypeError:
            return False
        return True

    def _refuse(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        try:
            self._signature.bind(*arguments, **named)
        except TypeError as error:
            raise WrongArguments(f"{self._name}{self._signature}: {error}") from None


def _usual_decoder(positional: Sequence[Argument], parameters: int) -> msgspec.json.Decoder[Any] | None:
    """Give what reads and converts the usual call, all arguments by position, in one go; None if there is none."""
    if not positional or len(positional) != parameters:
        return None
    wanted: Any = tuple.__class_getitem__(tuple(one.wanted for one in positional))
    fields: list[tuple[str, Any, Any]] = [
        ("args", wanted, msgspec.NODEFAULT),
        ("kwargs", dict[str, Any], msgspec.field(default_factory=dict)),
    ]
    try:
        return msgspec.json.Decoder(msgspec.defstruct("Call", fields, forbid_unknown_fields=True), dec_hook=_revive)
    except TypeError:
        return None


def _is_call(value: dict[str, Any]) -> bool:
    return (
        bool(value)
        and value.keys() <= _CALL_KEYS
        and type(value.get("args", [])) is list
        and type(value.get("kwargs", {})) is dict
    )


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Give the annotations that can be read and that msgspec can convert to; the others ask for nothing."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations may name anything, also what exists only for a type checker
        return {}
    return {name: hint for name, hint in hints.items() if _is_known(hint)}


def _is_known(hint: Any) -> bool:  # noqa: ANN401 - any annotation
    try:
        msgspec.inspect.type_info(hint)
    except Exception:  # noqa: BLE001 - whatever it cannot read, we pass on as it came
        return False
    return True


def _revive(wanted: Any, value: Any) -> Any:  # noqa: ANN401 - any type
    """Convert to a type of the user's that msgspec does not know: Pydantic's models, and what already is one."""
    validate = getattr(wanted, "model_validate", None)
    if validate is not None:
        return validate(value)
    if isinstance(wanted, type) and isinstance(value, wanted):
        return value
    raise ValueError(f"{getattr(wanted, '__name__', wanted)} cannot be made of JSON")


def pack(arguments: Sequence[Any], named: Mapping[str, Any]) -> str:
    """Write a call down as a payload."""
    return msgspec.json.encode({"args": arguments, "kwargs": named}, enc_hook=_lay_down).decode()


def encode_result(result: Any) -> str:  # noqa: ANN401 - whatever a handler returns
    """Write a result down as JSON."""
    if result is None:
        return "null"
    try:
        return _ENCODER.encode(result).decode()
    except Exception as error:  # noqa: BLE001 - the object's own code may raise anything
        raise NotJson(
            f"the handler returned {_described(result)}, which cannot be kept as JSON: {_said(error)}"
        ) from None


def _lay_down(value: Any) -> Any:  # noqa: ANN401 - any object
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__qualname__} is not JSON")
    return dump(mode="json")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_lay_down)


def _described(result: object) -> str:
    kind = type(result)
    return f"{kind.__module__}.{kind.__qualname__}"


def _said(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - as above
        return type(error).__qualname__

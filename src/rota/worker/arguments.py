"""Arguments of handlers: from a payload to a call, checked and converted by the function's annotations.

A payload ``{"args": [...], "kwargs": {...}}`` is a call as the Python SDK writes it. Any other payload came from
elsewhere: an object becomes keyword arguments where the function can take them, and everything else is the only
positional argument. A payload that does not fit is a permanent error: another attempt would fail too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from inspect import Parameter
from itertools import chain, repeat
from typing import Any, Final, NoReturn

import msgspec

from rota.core.finite import require_finite
from rota.worker.annotations import annotations_of, decode_object, distance, encode_object, forms_of, read
from rota.worker.outcomes import PermanentError

Call = tuple[Sequence[Any], Mapping[str, Any]]
_NOTHING: Final[Call] = ((), {})
_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_KEYWORD: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_CALL_KEYS: Final = frozenset({"args", "kwargs"})
_LONGEST_NAME: Final = 40
#: The types that a JSON object can be converted to.
_OBJECTS: Final = (
    msgspec.inspect.AnyType,
    msgspec.inspect.CustomType,
    msgspec.inspect.DataclassType,
    msgspec.inspect.DictType,
    msgspec.inspect.StructType,
    msgspec.inspect.TypedDictType,
)
#: Values of exactly these types need no conversion.
_EXACT: Final = frozenset({int, str, bool, dict, list})


class WrongArguments(PermanentError):
    """The payload does not fit the function."""


class NotJson(PermanentError):
    """The result of the handler cannot be stored as JSON."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter and its annotation (`Any` if the annotation cannot be checked)."""

    name: str
    annotation: Any
    #: The types that values are converted to; several if they have to be tried one by one.
    forms: tuple[Any, ...] = (Any,)

    @classmethod
    def of(cls, parameter: Parameter, hints: Mapping[str, Any]) -> Argument:
        hint = hints.get(parameter.name, Any)
        forms = forms_of(hint, is_optional=parameter.default is None)
        return cls(parameter.name, Any if forms == (Any,) else hint, forms)

    def take(self, value: Any) -> Any:  # noqa: ANN401 - as annotated
        """Convert a JSON value to the annotated type."""
        annotation = self.annotation
        if annotation is Any or (type(value) is annotation and annotation in _EXACT):
            return value
        if len(self.forms) > 1:
            return self._chosen(value)
        try:
            return read(value, self.forms[0])
        except (ValueError, TypeError) as error:
            self._refuse(value, error)

    def _chosen(self, value: Any) -> Any:  # noqa: ANN401 - as annotated
        """Convert a value to the one type that fits; keep it as it is if several fit (text for `str | bytes`)."""
        fitting: list[Any] = []
        errors: list[Exception] = []
        for form in self.forms:
            try:
                fitting.append(read(value, form))
            except (ValueError, TypeError) as error:
                errors.append(error)
        if not fitting:
            raise WrongArguments(f"argument {self.name!r}: {errors[0]}") from None
        # A class accepts also objects with more or fewer fields than its own.
        distances = [distance(one, value) for one in fitting]
        nearest = min(distances)
        return fitting[distances.index(nearest)] if distances.count(nearest) == 1 else value

    def _refuse(self, value: Any, error: Exception) -> NoReturn:  # noqa: ANN401 - as annotated
        """Raise the error for the annotation as it is written, rather than for the types derived from it."""
        try:
            read(value, self.annotation)
        except (ValueError, TypeError) as better:
            error = better
        raise WrongArguments(f"argument {self.name!r}: {error}") from None


_ANYTHING: Final = Argument("", Any)
#: Written to JSON as base64.
_BYTES: Final = frozenset({bytes, bytearray, memoryview})


class CallSignature:
    """The signature of a function, with the conversions of its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature = inspect.signature(function)
        hints = annotations_of(function)
        parameters = self._signature.parameters.values()
        known = {one.name: Argument.of(one, hints) for one in parameters}
        self.arguments: Mapping[str, Argument] = known
        self._positional = [known[one.name] for one in parameters if one.kind in _POSITIONAL]
        self._named = {one.name: known[one.name] for one in parameters if one.kind in _KEYWORD}
        self._rest = next((known[one.name] for one in parameters if one.kind is Parameter.VAR_POSITIONAL), None)
        self._others = next((known[one.name] for one in parameters if one.kind is Parameter.VAR_KEYWORD), None)
        self._name = getattr(function, "__name__", "the handler")
        self._takes_nothing = self._fits((), {})
        #: Required names; if all parameters can be named, an object whose keys include these and no unknown ones fits.
        self._required = frozenset(one.name for one in parameters if one.default is Parameter.empty)
        self._can_be_named = len(self._named) == len(parameters)
        self._positional_call = _positional_decoder(self._positional, len(parameters))

    def decode(self, payload: str) -> Call:
        """Convert a payload to a call of the function."""
        if self._positional_call is not None and payload.startswith('{"args":'):
            try:
                call = self._positional_call.decode(payload)
            except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
                pass  # an unusual or wrong payload: handled by the slow path below
            else:
                if not call.kwargs:
                    return call.args, {}
        return self._decode(payload)

    def check(self, payload: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Refuse a call that the worker would refuse, or whose bytes would arrive as text: JSON has no bytes."""
        taken, others = self.decode(payload)
        if _BYTES.isdisjoint(map(type, (*arguments, *named.values()))):
            return
        expected = chain(self._positional, repeat(self._rest or _ANYTHING))
        by_name = ((self._named.get(name) or self._others_as(name), named[name], others[name]) for name in named)
        for argument, given, arrived in chain(zip(expected, arguments, taken, strict=False), by_name):
            if argument.annotation is not Any and type(given) in _BYTES and isinstance(arrived, str):
                remedy = "decode them, or annotate it as bytes"
                raise WrongArguments(f"argument {argument.name!r}: bytes would arrive as base64 text; {remedy}")

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
        if type(value) is dict:
            if self._fits((), value):
                return self.convert((), value)
            if not self._takes_an_object:
                self._refuse((), value)
        return self.convert((value,), {})

    @cached_property
    def _takes_an_object(self) -> bool:
        """Whether an object can be the only positional argument; if not, its keys are names of arguments."""
        first = self._positional[0] if self._positional else self._rest
        return first is not None and any(_takes_objects(msgspec.inspect.type_info(form)) for form in first.forms)

    @property
    def positional_annotations(self) -> tuple[Any, ...] | None:
        """The annotations of the parameters, in order; None if some cannot be given by position."""
        is_plain = len(self._positional) == len(self._signature.parameters)
        return tuple(one.annotation for one in self._positional) if is_plain else None

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        return self._signature.parameters

    def convert(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> Call:
        """Check a call and convert its arguments."""
        if len(arguments) > len(self._positional) and self._rest is None:
            self._refuse(arguments, named)
        taken = [argument.take(value) for argument, value in zip(self._positional, arguments, strict=False)]
        if len(arguments) > len(taken) and self._rest is not None:
            taken += [self._rest.take(value) for value in arguments[len(taken) :]]
        # The usual call, in which every parameter is given by position, needs no further check.
        if named or len(taken) != len(self._signature.parameters):
            if not self._fits(taken, named):
                self._refuse(arguments, named)
            named = {
                name: (self._named.get(name) or self._others_as(name)).take(value) for name, value in named.items()
            }
        return taken, named

    def _others_as(self, name: str) -> Argument:
        return _ANYTHING if self._others is None else replace(self._others, name=name)

    def _fits(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> bool:
        try:
            self._signature.bind(*arguments, **named)
        except TypeError:
            return False
        return True

    def _refuse(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        unexpected = next((name for name in named if name not in self._named and self._others is None), None)
        if unexpected is not None:
            close = get_close_matches(unexpected[:_LONGEST_NAME], self._named, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            problem = f"got an unexpected argument {unexpected[:_LONGEST_NAME]!r}{hint}"
            raise WrongArguments(f"{self._name}{self._signature}: {problem}")
        try:
            self._signature.bind(*arguments, **named)
        except TypeError as error:
            raise WrongArguments(f"{self._name}{self._signature}: {error}") from None


def _takes_objects(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(_takes_objects(one) for one in kind.types)
    return isinstance(kind, _OBJECTS)


def _positional_decoder(positional: Sequence[Argument], parameters: int) -> msgspec.json.Decoder[Any] | None:
    """Make a decoder for the usual call (all arguments by position) in one step; None if that is not possible."""
    if not positional or len(positional) != parameters:
        return None
    if any(len(one.forms) > 1 for one in positional):
        return None
    annotations: Any = tuple.__class_getitem__(tuple(one.forms[0] for one in positional))
    fields: list[tuple[str, Any, Any]] = [
        ("args", annotations, msgspec.NODEFAULT),
        ("kwargs", dict[str, Any], msgspec.field(default_factory=dict)),
    ]
    try:
        return msgspec.json.Decoder(
            msgspec.defstruct("Call", fields, forbid_unknown_fields=True), dec_hook=decode_object
        )
    except TypeError:
        return None


def _is_call(value: dict[str, Any]) -> bool:
    return (
        bool(value)
        and value.keys() <= _CALL_KEYS
        and type(value.get("args", [])) is list
        and type(value.get("kwargs", {})) is dict
    )


def pack(arguments: Sequence[Any], named: Mapping[str, Any]) -> str:
    """Encode a call as a payload; raise ValueError for a number that is not finite."""
    text = _ENCODER.encode({"args": arguments, "kwargs": named}).decode()
    if "null" in text:
        require_finite(msgspec.to_builtins(arguments, enc_hook=encode_object), "args")
        require_finite(msgspec.to_builtins(named, enc_hook=encode_object), "kwargs")
    return text


def encode_result(result: Any) -> str:  # noqa: ANN401 - whatever a handler returns
    """Encode a result as JSON."""
    if result is None:
        return "null"
    try:
        text = _ENCODER.encode(result).decode()
        if "null" in text:
            require_finite(msgspec.to_builtins(result, enc_hook=encode_object), "result")
    except Exception as error:  # noqa: BLE001 - the object's own code may raise anything
        raise NotJson(
            f"the handler returned {_class_name(result)}, which cannot be stored as JSON: {_message(error)}"
        ) from None
    return text


_ENCODER: Final = msgspec.json.Encoder(enc_hook=encode_object)


def _class_name(result: object) -> str:
    kind = type(result)
    return f"{kind.__module__}.{kind.__qualname__}"


def _message(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - as above
        return type(error).__qualname__

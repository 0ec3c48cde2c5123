"""JSON Schemas of payloads, derived from the annotations of handlers.

A schema describes the payload as people write it: an object of the named arguments. A function with arguments that
cannot be named takes its call instead: ``{"args": [...], "kwargs": {...}}``. An annotation without a schema allows
anything, as its value is passed unchanged; a schema that would be too long is left out.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable, Mapping
from inspect import Parameter
from typing import Any, Final

import msgspec

from rota.core.payload_schema import LONGEST_SCHEMA
from rota.worker.arguments import Argument, CallSignature
from rota.worker.handlers import Handler

_REFERENCE: Final = "#/$defs/{name}"
_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_VARIABLE: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)

Schema = dict[str, Any]


def schemas_of(handlers: Iterable[Handler]) -> dict[str, str]:
    """Return the schemas of the payloads of all handlers that have one, as JSON by task type."""
    known: dict[str, str] = {}
    for handler in handlers:
        signature = getattr(handler.decode, "__self__", None)
        if not isinstance(signature, CallSignature):
            continue
        try:
            text = json.dumps(schema_of(signature), separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            continue
        if len(text) <= LONGEST_SCHEMA:
            known[handler.type] = text
    return known


def schema_of(signature: CallSignature) -> Schema:
    """Return the schema of the payloads that a function takes."""
    parameters, arguments = signature.parameters, signature.arguments
    definitions: Schema = {}
    schemas = {name: _argument(arguments[name], one, definitions) for name, one in parameters.items()}
    is_named = all(one.kind in {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY} for one in parameters.values())
    schema = _named(parameters, schemas) if is_named else _call(parameters, schemas)
    return {**schema, **({"$defs": definitions} if definitions else {})}


def _named(parameters: Mapping[str, Parameter], schemas: Mapping[str, Schema]) -> Schema:
    """Describe an object of named arguments."""
    known = [one for one in parameters.values() if one.kind not in _VARIABLE]
    others = next((schemas[one.name] for one in parameters.values() if one.kind is Parameter.VAR_KEYWORD), False)
    schema: Schema = {
        "type": "object",
        "properties": {one.name: schemas[one.name] for one in known},
        "required": [one.name for one in known if one.default is Parameter.empty],
        "additionalProperties": others,
    }
    return schema


def _call(parameters: Mapping[str, Parameter], schemas: Mapping[str, Schema]) -> Schema:
    """Describe a call: positional arguments in order, and named ones."""
    positional = [one for one in parameters.values() if one.kind in _POSITIONAL]
    rest = next((schemas[one.name] for one in parameters.values() if one.kind is Parameter.VAR_POSITIONAL), False)
    named = {name: one for name, one in parameters.items() if one.kind in {Parameter.KEYWORD_ONLY, _VARIABLE[1]}}
    required = [one for one in positional if one.kind is Parameter.POSITIONAL_ONLY and one.default is Parameter.empty]
    also = {one.name: one for one in positional if one.kind is Parameter.POSITIONAL_OR_KEYWORD}
    arguments: Schema = {"type": "array", "items": rest, "minItems": len(required)}
    if positional:
        arguments["prefixItems"] = [schemas[one.name] for one in positional]
    keywords = _named({**also, **named}, schemas)
    # A parameter that can be given by position need not be named.
    keywords["required"] = [name for name in keywords["required"] if name not in also]
    needed = ["args"] if required else []
    needed += ["kwargs"] if keywords["required"] else []
    return {
        "type": "object",
        "properties": {"args": arguments, "kwargs": keywords},
        "required": needed,
        "additionalProperties": False,
    }


def _argument(argument: Argument, parameter: Parameter, definitions: Schema) -> Schema:
    schema = _annotation(argument, definitions, is_optional=parameter.default is None)
    if parameter.default is Parameter.empty:
        return schema
    try:
        default = msgspec.to_builtins(parameter.default)
        json.dumps(default, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return schema
    return {**schema, "default": default}


def _annotation(argument: Argument, definitions: Schema, *, is_optional: bool) -> Schema:
    if argument.annotation is Any:
        return {}
    whole = typing.Optional[argument.annotation] if is_optional else argument.annotation  # noqa: UP045 - any annotation
    # A union that msgspec refuses is described part by part.
    for parts in ((whole,), argument.forms):
        try:
            schemas, known = msgspec.json.schema_components(parts, schema_hook=_foreign, ref_template=_REFERENCE)
        except (TypeError, ValueError, RuntimeError, NotImplementedError):
            continue
        definitions.update(known)
        return dict(schemas[0]) if len(schemas) == 1 else {"anyOf": list(schemas)}
    return {}


def _foreign(kind: type) -> Schema:
    """Describe a type that msgspec does not know: a Pydantic model by its own schema, any other as anything."""
    describe = getattr(kind, "model_json_schema", None)
    if describe is None:
        return {}
    # Its references would point into the whole schema; without them an object is all that is said.
    schema: Schema = describe()
    return {"type": "object", "title": kind.__name__} if "$defs" in schema else schema

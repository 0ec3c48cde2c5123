"""Payload schemas: derived from annotations, and registered by a worker when it starts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import pytest

from rota.core.payload_schema import LONGEST_SCHEMA
from rota.worker.arguments import CallSignature
from rota.worker.handlers import Handler, handler_of
from rota.worker.payload_schema import schema_of, schemas_of
from worker.environment import WorkerEnvironment


@dataclass
class Address:
    street: str
    number: int = 1


def mail(to: str, copies: int = 1, *, day: date | None = None, kind: Literal["a", "b"] = "a") -> None: ...


def ship(address: Address, extra: Any = None) -> None: ...  # noqa: ANN401 - what is tested


def add(first: int, second: int, /, *more: int) -> None: ...


def anything(**fields: int) -> None: ...


def foreign(thing: asyncio.Event, name: str) -> None: ...


def derived(function: Any) -> dict[str, Any]:  # noqa: ANN401 - any function
    return schema_of(CallSignature(function))


def test_named_arguments_are_the_properties_of_an_object() -> None:
    schema = derived(mail)
    assert schema["required"] == ["to"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["to"] == {"type": "string"}
    assert schema["properties"]["copies"] == {"type": "integer", "default": 1}
    assert {"type": "null"} in schema["properties"]["day"]["anyOf"]
    assert schema["properties"]["kind"] == {"enum": ["a", "b"], "default": "a"}


def test_a_class_is_described_once_and_referred_to() -> None:
    schema = derived(ship)
    assert schema["properties"]["address"] == {"$ref": "#/$defs/Address"}
    assert schema["$defs"]["Address"]["properties"]["number"] == {"type": "integer", "default": 1}
    assert schema["properties"]["extra"] == {"default": None}


def test_arguments_that_cannot_be_named_are_described_as_a_call() -> None:
    schema = derived(add)
    assert schema["required"] == ["args"]
    arguments = schema["properties"]["args"]
    assert arguments["prefixItems"] == [{"type": "integer"}] * 2
    assert (arguments["minItems"], arguments["items"]) == (2, {"type": "integer"})
    named = derived(anything)["properties"]["kwargs"]
    assert named["additionalProperties"] == {"type": "integer"}


def test_an_annotation_without_a_schema_allows_anything() -> None:
    assert derived(foreign)["properties"] == {"thing": {}, "name": {"type": "string"}}


def test_a_schema_that_is_too_long_and_a_handler_with_its_own_decoding_are_left_out() -> None:
    def long(text: str = "x" * LONGEST_SCHEMA) -> None: ...

    raw = Handler("raw", mail, "thread", decode=lambda payload: ((payload,), {}))
    known = schemas_of([handler_of(mail), handler_of(long, type="long"), raw])
    assert list(known) == ["mail"]
    assert json.loads(known["mail"])["required"] == ["to"]


async def test_a_worker_registers_its_schemas_when_it_starts(env: WorkerEnvironment) -> None:
    is_done = asyncio.Event()

    async def register(schemas: Mapping[str, str]) -> None:
        await env.engine.store.register_schemas(schemas)
        is_done.set()

    async with env.worker(mail, register_schemas=register):
        await asyncio.wait_for(is_done.wait(), 20)
    stored = await env.engine.store.payload_schema("mail")
    assert stored is not None
    assert json.loads(stored.body)["properties"]["to"] == {"type": "string"}


async def test_a_worker_whose_registration_fails_works_nevertheless(
    env: WorkerEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    is_asked = asyncio.Event()

    async def refuse(schemas: Mapping[str, str]) -> None:
        assert "mail" in schemas
        is_asked.set()
        raise RuntimeError("an older server")

    caplog.set_level("INFO", "rota.worker")
    job = await env.submit("mail", payload='{"to": "ann"}')
    async with env.worker(mail, register_schemas=refuse):
        await env.until(job, lambda one: one.state == "completed")
        await asyncio.wait_for(is_asked.wait(), 20)
    assert "an older server" in caplog.text

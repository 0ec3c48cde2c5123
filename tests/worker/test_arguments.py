"""Arguments: from payloads to calls of handlers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import UUID

import msgspec
import pytest

from rota.core.errors import InvalidRequest
from rota.worker import Handler, Handlers, handler_of
from rota.worker.arguments import CallSignature, NotJson, WrongArguments, encode_result, pack

if TYPE_CHECKING:
    from nowhere import Nothing  # type: ignore[import-not-found]


@dataclass
class Point:
    x: int
    y: int = 0


class Order(msgspec.Struct):
    id: UUID
    total: Decimal


class Model:
    """Looks like a model of Pydantic's."""

    def __init__(self, value: int) -> None:
        self.value = value

    @classmethod
    def model_validate(cls, value: Any) -> Self:  # noqa: ANN401 - any JSON
        if not isinstance(value, dict) or not isinstance(value.get("value"), int):
            raise ValueError("value: must be an integer")  # noqa: TRY004 - as Pydantic does
        return cls(value["value"])

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        return {"value": self.value, "mode": mode}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


def nothing() -> None: ...
def one(value): ...  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
def two(a: int, b: str = "b"): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def optional(a: int = 7): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def charge(amount: int, currency: str = "EUR"): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def counts(by: dict[int, str]): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def keyword(*, name: str): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def rest(*values: int, **named: float): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def point(where: Point): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def points(where: list[Point], at: datetime | None = None): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def order(what: Order): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def model(what: Model): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def choice(which: Literal["a", "b"]): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def pair(both: tuple[int, str]): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def day(when: date): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def unknown(what: Nothing): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def positional(a: int, /, b: int): ...  # type: ignore[no-untyped-def] # noqa: ANN201
def plain_object(payload: dict[str, Any]): ...  # type: ignore[no-untyped-def] # noqa: ANN201


UUID_TEXT = "12345678-1234-5678-1234-567812345678"

CALLS: list[tuple[Callable[..., Any], str, tuple[list[Any], dict[str, Any]]]] = [
    (nothing, "null", ([], {})),
    (nothing, "{}", ([], {})),
    (nothing, '{"args": [], "kwargs": {}}', ([], {})),
    (one, "null", ([None], {})),
    (one, "5", ([5], {})),
    (one, '"task data"', (["task data"], {})),
    (one, "[1, 2]", ([[1, 2]], {})),
    (one, '{"to": "x"}', ([{"to": "x"}], {})),
    (one, '{"value": 3}', ([], {"value": 3})),
    (one, '{"args": 3}', ([{"args": 3}], {})),
    (one, '{"args": [3]}', ([3], {})),
    (one, '{"args": [1], "other": 2}', ([{"args": [1], "other": 2}], {})),
    (two, '{"a": 1}', ([], {"a": 1})),
    (two, '{"a": 1, "b": "c"}', ([], {"a": 1, "b": "c"})),
    (two, '{"args": [1], "kwargs": {"b": "c"}}', ([1], {"b": "c"})),
    (two, "1", ([1], {})),
    (optional, "null", ([], {})),
    (optional, "3", ([3], {})),
    (keyword, '{"name": "n"}', ([], {"name": "n"})),
    (rest, '{"args": [1, 2, 3]}', ([1, 2, 3], {})),
    (rest, '{"x": 1}', ([], {"x": 1.0})),
    (point, '{"x": 1}', ([Point(1)], {})),
    (point, '{"where": {"x": 1, "y": 2}}', ([], {"where": Point(1, 2)})),
    (points, '{"args": [[{"x": 1}]]}', ([[Point(1)]], {})),
    (order, f'{{"id": "{UUID_TEXT}", "total": "1.10"}}', ([Order(UUID(UUID_TEXT), Decimal("1.10"))], {})),
    (model, '{"value": 4}', ([Model(4)], {})),
    (choice, '"a"', (["a"], {})),
    (pair, '[1, "x"]', ([(1, "x")], {})),
    (day, '"2026-03-01"', ([date(2026, 3, 1)], {})),
    (unknown, '{"any": "thing"}', ([{"any": "thing"}], {})),
    (positional, '{"args": [1], "kwargs": {"b": 2}}', ([1], {"b": 2})),
    (counts, '{"args": [{"1": "a"}]}', ([{1: "a"}], {})),
    (counts, '{"by": {"1": "a"}}', ([], {"by": {1: "a"}})),
    (plain_object, '{"action": "email_user", "user_id": 42}', ([{"action": "email_user", "user_id": 42}], {})),
]


@pytest.mark.parametrize(("function", "payload", "expected"), CALLS)
def test_a_payload_becomes_a_call(
    function: Callable[..., Any], payload: str, expected: tuple[list[Any], dict[str, Any]]
) -> None:
    arguments, named = CallSignature(function).decode(payload)
    assert (list(arguments), dict(named)) == expected
    function(*arguments, **named)


REFUSED = [
    (nothing, "5", "too many positional"),
    (nothing, '{"a": 1}', r"nothing\(\).*: got an unexpected argument 'a'"),
    (charge, '{"amont": 10}', "unexpected argument 'amont'; did you mean 'amount'"),
    (charge, '{"kwargs": {"amont": 10}}', "unexpected argument 'amont'; did you mean 'amount'"),
    (charge, '{"colour": "red"}', r"charge\(amount: .*: got an unexpected argument 'colour'$"),
    (charge, "{}", "missing a required argument: 'amount'"),
    (charge, '{"amount": "x"}', "argument 'amount': Expected `int`, got `str`"),
    (two, '{"b": "c"}', "missing a required argument: 'a'"),
    (rest, '{"args": [{}]}', "argument 'values': Expected `int`, got `object`"),
    (point, '{"y": 1}', "argument 'where': .*missing required field `x`"),
    (two, "null", "argument 'a'"),
    (two, '"x"', "argument 'a'"),
    (two, '{"a": "x"}', "argument 'a'"),
    (two, '{"args": [1, "b", 3]}', "too many"),
    (two, '{"args": [], "kwargs": {}}', "missing"),
    (two, '{"args": [1], "kwargs": {"a": 1}}', "multiple values"),
    (two, '{"kwargs": {"a": 1, "c": 2}}', "unexpected"),
    (point, '{"x": "one"}', "argument 'where'"),
    (model, '{"value": "x"}', "must be an integer"),
    (choice, '"c"', "argument 'which'"),
    (pair, "[1]", "argument 'both'"),
    (keyword, "5", "positional"),
    (one, "{", "not JSON"),
    (one, "[" * 100_000, "not JSON"),
]


@pytest.mark.parametrize(("function", "payload", "told"), REFUSED)
def test_a_payload_that_does_not_fit_is_refused_and_says_why(
    function: Callable[..., Any], payload: str, told: str
) -> None:
    with pytest.raises(WrongArguments, match=told):
        CallSignature(function).decode(payload)


def test_what_is_packed_is_called_the_same() -> None:
    payload = pack([Point(1, 2), Model(3)], {"at": None})
    assert msgspec.json.decode(payload) == {
        "args": [{"x": 1, "y": 2}, {"value": 3, "mode": "json"}],
        "kwargs": {"at": None},
    }


RESULTS = [(None, "null"), (1, "1"), ("ä", '"ä"'), (Point(1), '{"x":1,"y":0}'), (Model(2), '{"value":2,"mode":"json"}')]


@pytest.mark.parametrize(("result", "text"), RESULTS)
def test_a_result_becomes_json(result: object, text: str) -> None:
    assert encode_result(result) == text


def test_a_result_whose_own_code_fails_is_named() -> None:
    class Broken:
        def model_dump(self, *, mode: str) -> object:
            raise RuntimeError(mode)

    with pytest.raises(NotJson, match="Broken"):
        encode_result(Broken())


def test_a_type_has_one_handler() -> None:
    handlers = Handlers([handler_of(two)])
    with pytest.raises(InvalidRequest, match="already"):
        handlers.register(handler_of(one, type="two"))
    assert handlers.types == ("two",)
    assert handlers.lookup("three") is None


def test_a_handler_runs_as_its_function_can() -> None:
    async def coroutine() -> None: ...

    assert handler_of(coroutine).executor == "async"
    assert handler_of(nothing).executor == "thread"
    assert handler_of(nothing, executor="process").reference == f"{nothing.__module__}:nothing"
    assert handler_of(functools.partial(two, 1), type="partial").executor == "thread"
    for executor, function in (("async", nothing), ("thread", coroutine)):
        with pytest.raises(InvalidRequest, match="runs as 'async'"):
            Handler("x", function, executor, decode=CallSignature(function).decode)  # type: ignore[arg-type]

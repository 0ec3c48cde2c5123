"""Which arguments fit an annotation: at submission and in the worker, for every way to write a function."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from rota import Rota
from rota.core.errors import InvalidRequest

if TYPE_CHECKING:
    from nowhere import Nothing  # type: ignore[import-not-found]


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Circle:
    x: int
    y: int = 0
    radius: int = 1


class Sized(Protocol):
    size: int


class Mover:
    def __call__(self, point: Point, by: int = 1) -> Point:
        return Point(point.x + by, point.y)


def move(point: Point, by: int, beside: Nothing | None = None) -> Point:
    del beside
    return Point(point.x + by, point.y)


def implicit(x: str = None) -> object:  # type: ignore[assignment] # noqa: RUF013
    return x


def each(x: Iterable[int]) -> object:
    return x


def maybe_each(x: list[Iterable[int]] | None) -> object:
    return x


def counts(x: defaultdict[str, int]) -> object:
    return x


def called(x: Callable[..., Any]) -> object:
    return x


def sized(x: Sized) -> object:
    return x


def number(x: int) -> object:
    return x


def numbers(x: dict[str, list[int]]) -> object:
    return x


def half(x: float) -> object:
    return x


def shape(x: Point | Circle) -> object:
    return x


def when(x: datetime | date) -> object:
    return x


def whenever(x: datetime | str) -> object:
    return x


def raw(x: bytes) -> object:
    return x


def text(x: str, *more: str) -> object:
    return [x, *more]


def text_or_raw(x: str | bytes) -> object:
    return x


def loose(x) -> object:  # type: ignore[no-untyped-def] # noqa: ANN001
    return x


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FITS: list[tuple[Callable[..., Any], Any, Any]] = [
    (implicit, None, None),
    (implicit, "a", "a"),
    (each, [1, 2], [1, 2]),
    (maybe_each, [[1]], [[1]]),
    (maybe_each, None, None),
    (counts, defaultdict(int, {"a": 1}), {"a": 1}),
    (called, "json.dumps", "json.dumps"),
    (sized, {"size": 1}, {"size": 1}),
    (number, True, True),
    (number, 3, 3),
    (numbers, {"a": [True, 2]}, {"a": [True, 2]}),
    (half, 1, 1.0),
    (half, True, True),
    (shape, Point(1, 2), Point(1, 2)),
    (shape, Circle(1, 2, 3), Circle(1, 2, 3)),
    (shape, {"x": 1, "radius": 3}, Circle(1, 0, 3)),
    (shape, {"x": 1}, Point(1)),
    (when, NOON, NOON),
    (when, date(2026, 1, 1), date(2026, 1, 1)),
    (whenever, "soon", "soon"),
    (raw, b"\xff", b"\xff"),
    (text_or_raw, "a text", "a text"),
    (functools.partial(move, by=2), Point(1), Point(3)),
    (Mover(), Point(1), Point(2)),
    (functools.partial(Mover(), by=5), Point(1), Point(6)),
]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Rota]:
    one = Rota(str(tmp_path / "rota.db"))
    yield one
    one.close()


def test_a_value_that_fits_its_annotation_arrives_as_it_was_given(app: Rota) -> None:
    arrived: list[Any] = []

    def noting(function: Callable[..., Any]) -> Callable[..., None]:
        # `wraps` keeps the signature: what a function takes is not changed by noting what it got.
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            arrived.append(function(*args, **kwargs))

        return run

    tasks = [app.task(name=f"task-{index}")(noting(function)) for index, (function, _, _) in enumerate(FITS)]
    with app.run(concurrency=1):
        for task, (_, given, expected) in zip(tasks, FITS, strict=True):
            task.submit(given).result(timeout="20s")
            assert (arrived[-1], type(arrived[-1])) == (expected, type(expected)), task.name


@pytest.mark.parametrize("function", [functools.partial(move, by=2), Mover()])
def test_a_partial_or_a_callable_object_gets_its_arguments_and_gives_its_result_as_annotated(
    app: Rota, function: Callable[..., Any]
) -> None:
    task = app.task(name="move")(function)
    with app.run():
        assert isinstance(task.submit(Point(1)).result(timeout="20s"), Point)
        assert isinstance(task.submit(point=Point(1)).result(timeout="20s"), Point)


@pytest.mark.parametrize(
    ("function", "given", "words"),
    [
        (move, ("x", 1), "argument 'point': Expected `object`, got `str`"),
        (move, (Point(1), "x"), "argument 'by': Expected `int"),
        (functools.partial(move, by=2), ("x",), "argument 'point': Expected `object`, got `str`"),
        (Mover(), (Point(1), "x"), "argument 'by': Expected `int"),
        (implicit, (5,), "argument 'x': Expected `str"),
        (number, (None,), "argument 'x': Expected `int"),
        (number, (1.5,), "argument 'x': Expected `int"),
        (shape, ({"z": 1},), "argument 'x': .*missing required field `x`"),
        (when, ("soon",), "argument 'x': Invalid"),
        (text, (b"abc",), "argument 'x': bytes would arrive as base64 text; decode them, or annotate it as bytes"),
        (text, ("a", b"abc"), "argument 'more': bytes would arrive"),
        (text_or_raw, (b"abc",), "argument 'x': bytes would arrive"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_at_submission(
    app: Rota, function: Callable[..., Any], given: tuple[Any, ...], words: str
) -> None:
    task = app.task(name="it")(function)
    with pytest.raises(InvalidRequest, match=words):
        task.submit(*given)


def test_bytes_for_a_named_argument_that_asks_for_text_are_refused(app: Rota) -> None:
    with pytest.raises(InvalidRequest, match="argument 'x': bytes would arrive"):
        app.task(text).submit(x=b"abc")  # type: ignore[arg-type]
    app.task(loose).submit(b"abc")

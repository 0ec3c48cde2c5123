"""A value from another job becomes the first argument, whatever the payload is."""

from __future__ import annotations

import json

import pytest

from rota.worker.inputs import with_input


@pytest.mark.parametrize(
    ("payload", "args", "kwargs"),
    [
        ("null", [7], {}),
        ('{"args":[1,2],"kwargs":{"a":3}}', [7, 1, 2], {"a": 3}),
        ('{"args":[1]}', [7, 1], {}),
        ('{"kwargs":{"a":3}}', [7], {"a": 3}),
        ('{"to":"a@b.c"}', [7], {"to": "a@b.c"}),
        ("{}", [7], {}),
        ("[1,2]", [7, [1, 2]], {}),
        ('"text"', [7, "text"], {}),
    ],
)
def test_the_value_comes_before_the_arguments(payload: str, args: list[object], kwargs: dict[str, object]) -> None:
    assert json.loads(with_input(payload, "7")) == {"args": args, "kwargs": kwargs}

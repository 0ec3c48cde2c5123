from __future__ import annotations

import pytest

from rota.core import errors
from rota.core.errors import InvalidRequest, RotaError

CLASSES = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, RotaError)]


def drawn(root: type[RotaError], indent: str = "") -> list[str]:
    """Draw the tree as the module's docstring does, without its lines."""
    below = [drawn(each, indent + "  ") for each in CLASSES if root in each.__bases__]
    return [indent + root.__name__, *(line for branch in below for line in branch)]


def test_the_tree_in_the_docstring_is_the_tree_in_the_code() -> None:
    _, _, tree = (errors.__doc__ or "").partition("::\n\n")
    lines = [line for line in tree.splitlines() if line.startswith("    ")]
    shown = []
    for line in lines:
        name = line.strip(" │├└─").split()[0]
        shown.append("  " * ((line.index(name) - 4) // 4) + name)
    assert shown == drawn(RotaError)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_says_what_it_means(kind: type[RotaError]) -> None:
    assert kind.__doc__
    assert str(kind("job 1: no; ask again")) == "job 1: no; ask again"


def test_a_wrong_request_names_the_field_where_there_is_one() -> None:
    assert InvalidRequest("priority: 11 is too high", field="priority").field == "priority"
    assert InvalidRequest("no").field is None
    assert issubclass(InvalidRequest, ValueError)

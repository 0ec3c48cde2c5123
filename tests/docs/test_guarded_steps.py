"""Every snippet about guarded steps runs as it is written, on a file of the test's own."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "guarded-steps.md").read_text(encoding="utf-8")
CHARGING, BOOKING = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def names_of(snippet: str) -> dict[str, Any]:
    """Return what a snippet defines."""
    names: dict[str, Any] = {}
    exec(compile(snippet, "snippet", "exec", dont_inherit=True), names)  # noqa: S102 - our own page
    return names


def test_a_card_is_charged(tmp_path: Path) -> None:
    names = names_of(CHARGING.replace("Rota()", f"Rota({str(tmp_path / 'rota.db')!r})"))
    with names["app"].run():
        handle = names["charge_card"].submit(10)
        assert handle.result(timeout="30s") == f"receipt for 10, {handle.id}"


def test_an_order_is_booked_with_its_step(tmp_path: Path) -> None:
    place = tmp_path / "shop.db"
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("CREATE TABLE booking (number INTEGER)")
        names = names_of(BOOKING.replace("shop.db", str(place)))
        with names["app"].run():
            assert names["book"].submit(42).result(timeout="30s") == 42
        assert connection.execute("SELECT number FROM booking").fetchall() == [(42,)]
        assert connection.execute("SELECT key, outcome FROM rota_step").fetchall() == [("book", "42")]

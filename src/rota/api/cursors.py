"""Cursors: where a page ended, in a form that nobody is tempted to make by hand."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import TypeVar

from rota.api.errors import invalid

T = TypeVar("T")


def sealed(kind: str, place: str) -> str:
    """Make a cursor of a place in a list of a kind."""
    return urlsafe_b64encode(f"{kind}:{place}".encode()).decode().rstrip("=")


def opened(kind: str, cursor: str | None) -> str | None:
    """Read a cursor; refuse one that was made for another list or by hand."""
    if cursor is None:
        return None
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except ValueError:
        text = ""
    found, colon, place = text.partition(":")
    if found != kind or not colon or sealed(kind, place) != cursor:
        raise invalid([("cursor", "this is no cursor of this list; take it from 'next_cursor'")])
    return place


def page(kind: str, found: Sequence[T], limit: int, place: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """Cut what was found, one more than asked for, to a page, and make the cursor for the next."""
    if len(found) <= limit:
        return found, None
    return found[:limit], sealed(kind, place(found[limit - 1]))

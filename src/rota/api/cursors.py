"""Pagination cursors: the position behind the last item of a page, as opaque text."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import TypeVar

from rota.api.errors import invalid
from rota.core.errors import JobNotFound
from rota.core.ids import JobId, to_number, to_text
from rota.core.time import from_micros, to_micros
from rota.ports.store import JobQuery, Position

T = TypeVar("T")


def encode_cursor(kind: str, place: str) -> str:
    return urlsafe_b64encode(f"{kind}:{place}".encode()).decode().rstrip("=")


def decode_cursor(kind: str, cursor: str | None) -> str | None:
    """Return the position in a cursor; refuse a cursor of another list, or a forged one."""
    if cursor is None:
        return None
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except ValueError:
        text = ""
    prefix, colon, place = text.partition(":")
    if prefix != kind or not colon or encode_cursor(kind, place) != cursor:
        raise invalid([("cursor", "this is not a cursor of this list; take it from 'next_cursor'")])
    return place


def cut_page(kind: str, items: Sequence[T], limit: int, place: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """Cut a list to a page, and make the cursor of the next page if the list is longer."""
    if len(items) <= limit:
        return items, None
    return items[:limit], encode_cursor(kind, place(items[limit - 1]))


def continue_at(kind: str, cursor: str | None, query: JobQuery) -> JobQuery:
    """Return the query that continues at a cursor."""
    place = decode_cursor(kind, cursor)
    if place is None:
        return query
    job_id, _, finished_at = place.partition("-")
    try:
        end = from_micros(int(finished_at)) if finished_at else None
        position = Position(JobId(to_number(job_id)), end)
    except (ValueError, OverflowError, JobNotFound):
        position = None
    if position is None or query.is_by_finish != (position.finished_at is not None):
        raise invalid([("cursor", "this is not a cursor of this list with these filters; take it from 'next_cursor'")])
    return query.behind(position)


def cursor_at(kind: str, position: Position) -> str:
    """Make the cursor that continues a list of jobs behind a position."""
    end = "" if position.finished_at is None else f"-{to_micros(position.finished_at)}"
    return encode_cursor(kind, to_text(position.job_id) + end)

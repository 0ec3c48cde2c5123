"""Cursors: where a page ended, in a form that nobody is tempted to make by hand."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import TypeVar

from rota.api.errors import invalid
from rota.core.errors import JobNotFound
from rota.core.identity import JobId, to_number, to_text
from rota.core.instant import from_micros, to_micros
from rota.ports.store import JobQuery, Position

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


def continued(kind: str, cursor: str | None, query: JobQuery) -> JobQuery:
    """Have a list of jobs continue where a cursor says."""
    place = opened(kind, cursor)
    if place is None:
        return query
    job_id, _, finished_at = place.partition("-")
    try:
        end = from_micros(int(finished_at)) if finished_at else None
        position = Position(JobId(to_number(job_id)), end)
    except (ValueError, OverflowError, JobNotFound):
        position = None
    if position is None or query.is_by_finish != (position.finished_at is not None):
        raise invalid([("cursor", "this is no cursor of this list with these filters; take it from 'next_cursor'")])
    return query.behind(position)


def cursor_at(kind: str, position: Position) -> str:
    """Make the cursor of a list of jobs that continues behind a position."""
    end = "" if position.finished_at is None else f"-{to_micros(position.finished_at)}"
    return sealed(kind, to_text(position.job_id) + end)

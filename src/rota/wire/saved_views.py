"""Forms of saved views."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from rota.core.saved_view import SHARED, SavedView
from rota.wire.scalars import Moment

ViewName = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^/\x00-\x1f\x7f]+(?!\n)$")]
ViewQuery = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2_000,
        pattern=r"^[^\s#\x00-\x1f\x7f]+(?!\n)$",
        description="The query of the dashboard's address, such as `status=dead&queue=mail`.",
    ),
]


class ViewRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A view to save. A shared one is seen and changed by everybody who may act on all jobs of a search."""

    query: ViewQuery
    is_shared: bool = False


class ViewForm(Struct, kw_only=True):
    """A saved view of the list of jobs."""

    name: str
    query: str
    is_shared: bool
    saved_by: str
    saved_at: Moment | None


class ViewList(Struct, kw_only=True):
    """The shared views, and then the caller's own ones, each by name."""

    items: list[ViewForm]


def view_form(view: SavedView) -> ViewForm:
    return ViewForm(
        name=view.name,
        query=view.query or "",
        is_shared=view.owner == SHARED,
        saved_by=view.saved_by,
        saved_at=view.saved_at,
    )

"""Saved views: filters and columns of the list of jobs under a name, kept for one person or for everybody."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from rota.core.value import value

#: The owner of a view that everybody sees.
SHARED: Final = ""
#: How many views an owner may have.
MOST_VIEWS: Final = 100


@value
class SavedView:
    """A view of the list of jobs: the query of its address. Without a query, its removal."""

    owner: str
    name: str
    query: str | None = None
    saved_by: str = ""
    saved_at: datetime | None = None

"""What a route is: its path, what it asks of its caller, what it takes and what it gives.

One description serves the router, the check of scopes and the published document. A route cannot be written down
without a scope.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from msgspec import Struct

from rota.api.calls import Answer, Call, Stream
from rota.api.headers import Header
from rota.api.settings import Scope

Handler = Callable[[Call], Awaitable[Answer | Stream]]

#: What a body can be besides a form: a media type, or nothing at all.
Body = Any
EVENT_STREAM: Final = "text/event-stream"
JSON_LINES: Final = "application/x-ndjson"
HTML: Final = "text/html"
PLAIN_TEXT: Final = "text/plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One thing that can be asked for."""

    method: str
    path: str
    scope: Scope
    handler: Handler
    summary: str
    family: str
    gives: Mapping[int, Body]
    takes: type[Struct] | None = None
    body_is_optional: bool = False
    query: type[Struct] | None = None
    #: The headers it reads, beyond those that are read for every request.
    headers: tuple[Header, ...] = ()
    #: Statuses of refusals beyond those that follow from the rest.
    refuses: tuple[int, ...] = ()
    #: What a status means here, where its usual phrase does not say it.
    meanings: Mapping[int, str] = field(default_factory=dict)
    #: Whether HEAD may stand for GET: not where asking changes something.
    answers_head: bool = True

    def under(self, path: str, **changes: Any) -> Route:  # noqa: ANN401 - any field
        """Give the same route under another path."""
        return replace(self, path=path, **changes)

"""The description of the API: for programs and for people. Made of the routes themselves."""

from __future__ import annotations

from typing import Any

from rota.api.calls import Answer, Call, shown
from rota.api.pages import POLICY, page
from rota.api.settings import Scope
from rota.api.table import HTML, Route


async def openapi(call: Call) -> Answer:
    """Give the description as OpenAPI 3.1."""
    return shown(call.context.document)


async def docs(call: Call) -> Answer:
    """Give the description as a page; it needs nothing from elsewhere and runs no script."""
    text = page(call.context.document)
    return Answer(
        text.encode(), headers=[(b"content-security-policy", POLICY.encode())], media=f"{HTML}; charset=utf-8"
    )


_PAGE = Route(
    method="GET",
    path="/docs",
    scope=Scope.READ,
    handler=docs,
    summary="This description, as a page",
    family="documents",
    gives={200: HTML},
)

ROUTES = (
    Route(
        method="GET",
        path="/openapi.json",
        scope=Scope.READ,
        handler=openapi,
        summary="This description, as OpenAPI 3.1",
        family="documents",
        gives={200: dict[str, Any]},
    ),
    _PAGE,
    # Whoever opens the address that a server prints should not meet a refusal.
    _PAGE.under("/"),
)

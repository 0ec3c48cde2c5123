"""Health and metrics pages of a process that serves no API, with the same checks as the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rota.api.auth import PUBLIC_PATHS, admit, authorize
from rota.api.errors import HttpError, http_error_of
from rota.api.http import AsgiScope, Receive, Response, Send, problem_response, send_response
from rota.api.limits import RejectionCounts
from rota.api.router import refuse_query
from rota.api.settings import ApiSettings
from rota.core.access import Action

#: Makes a page; gets the value of the `Accept` header.
PageHandler = Callable[[str], Response]


class StatusApp:
    """An ASGI application of read-only pages that need no waiting."""

    def __init__(self, settings: ApiSettings, pages: Mapping[str, PageHandler]) -> None:
        self.settings = settings
        self._pages = pages
        self.rejections = RejectionCounts()

    def close(self) -> None:
        """Do nothing: no request waits."""

    async def aclose(self) -> None:
        """Do nothing: there is no background work."""

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - no page reads a body
        try:
            response = self._respond(scope, dict(scope["headers"]))
        except Exception as error:  # noqa: BLE001 - every error has a response
            response = problem_response(http_error_of(error))
        await send_response(response, scope, send)

    def _respond(self, scope: AsgiScope, headers: Mapping[bytes, bytes]) -> Response:
        key = admit(scope, headers, self.settings, self.rejections, in_flight=1)
        page = self._pages.get(scope["path"])
        if page is None:
            fix = f"there are {', '.join(sorted(self._pages))}"
            raise HttpError(404, "not_found", "there is nothing here", fix=fix)
        authorize(key, Action.PUBLIC if scope["path"] in PUBLIC_PATHS else Action.SYSTEM_READ)
        if scope["method"] not in {"GET", "HEAD"}:
            detail = f"{scope['method']} is not possible here; GET, HEAD are"
            raise HttpError(405, "method_not_allowed", detail, headers={"Allow": "GET, HEAD"})
        if scope["query_string"]:
            refuse_query(scope["query_string"])
        return page(headers.get(b"accept", b"").decode("latin-1"))

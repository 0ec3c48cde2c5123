"""A notice board: the few pages of a process that serves no API, behind the same door as the API itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rota.api.app import admit
from rota.api.auth import OPEN_PATHS, authorize
from rota.api.calls import Answer, AsgiScope, Receive, Send, refused
from rota.api.declared import refuse_query
from rota.api.endpoint import respond
from rota.api.errors import Refusal, refusal_of
from rota.api.rejections import Rejections
from rota.api.settings import ApiSettings, Scope

#: Makes a page, given what the caller accepts.
Page = Callable[[str], Answer]


class Board:
    """An ASGI application of pages that are made at once."""

    def __init__(self, settings: ApiSettings, pages: Mapping[str, Page]) -> None:
        self.settings = settings
        self._pages = pages
        self.rejections = Rejections()

    def close(self) -> None:
        """Nobody waits here."""

    async def aclose(self) -> None:
        """Nothing goes on here."""

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - no page reads a body
        """Show a page."""
        try:
            answer = self._answer(scope, dict(scope["headers"]))
        except Exception as error:  # noqa: BLE001 - every error has an answer
            answer = refused(refusal_of(error))
        await respond(answer, scope, send)

    def _answer(self, scope: AsgiScope, headers: Mapping[bytes, bytes]) -> Answer:
        key = admit(scope, headers, self.settings, self.rejections, in_flight=1)
        page = self._pages.get(scope["path"])
        if page is None:
            fix = f"there are {', '.join(sorted(self._pages))}"
            raise Refusal(404, "not_found", "there is nothing here", fix=fix)
        authorize(key, Scope.PUBLIC if scope["path"] in OPEN_PATHS else Scope.READ)
        if scope["method"] not in {"GET", "HEAD"}:
            detail = f"{scope['method']} is not possible here; GET, HEAD are"
            raise Refusal(405, "method_not_allowed", detail, headers={"Allow": "GET, HEAD"})
        if scope["query_string"]:
            refuse_query(scope["query_string"])
        return page(headers.get(b"accept", b"").decode("latin-1"))

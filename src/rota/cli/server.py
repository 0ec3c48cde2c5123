"""The server, as the command line sees it: JSON over HTTP, with every failure turned into a cause and a remedy."""

from __future__ import annotations

import http
import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from rota.cli.exits import CommandFailed, Exit

_CODES: Final = {
    401: Exit.NOT_AUTHORISED,
    403: Exit.NOT_AUTHORISED,
    404: Exit.NOT_FOUND,
    409: Exit.CONFLICT,
}
#: Longer than the longest wait that is asked for in one request.
TIMEOUT_SECONDS: Final = 75.0


class Server:
    """Asks the first of several addresses that answers."""

    def __init__(self, urls: Sequence[str], token: str = "") -> None:
        self._urls = [urlsplit(url) for url in urls]
        self._token = token

    def get(self, path: str, **query: object) -> Any:  # noqa: ANN401 - JSON
        """Read something."""
        return self.ask("GET", path, query=query)

    def post(self, path: str, body: object = None, **query: object) -> Any:  # noqa: ANN401 - JSON
        """Ask for something to be done."""
        return self.ask("POST", path, {} if body is None else body, query=query)

    def ask(self, method: str, path: str, body: object = None, *, query: Mapping[str, object] | None = None) -> Any:  # noqa: ANN401 - JSON
        """Send a request and read its answer; raise what a person can act on if it is a refusal."""
        wanted = {name: value for name, value in (query or {}).items() if value not in (None, "", ())}
        target = quote(path, safe="/:") + (f"?{urlencode(wanted, doseq=True)}" if wanted else "")
        problems = []
        for url in self._urls:
            try:
                return self._ask_one(url, method, target, body)
            except (OSError, http.client.HTTPException) as error:
                problems.append(f"{url.scheme}://{url.netloc}: {error}")
        raise CommandFailed(
            f"no server answers ({'; '.join(problems)})",
            fix="start one with `rota standalone`, or say where it is with --api-url or ROTA_API_URL",
            code=Exit.UNREACHABLE,
        )

    def _ask_one(self, url: SplitResult, method: str, target: str, body: object) -> Any:  # noqa: ANN401 - JSON
        connection = self._connection(url)
        headers = {"Accept": "application/json", "User-Agent": "rota-cli"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            data = json.dumps(body, allow_nan=False).encode()
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, url.path.rstrip("/") + target, data, headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise _refusal(response.status, content)
        return _json(content)

    def _connection(self, url: SplitResult) -> http.client.HTTPConnection:
        if url.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(url.netloc, timeout=TIMEOUT_SECONDS, context=context)
        return http.client.HTTPConnection(url.netloc, timeout=TIMEOUT_SECONDS)


def _json(content: bytes) -> Any:  # noqa: ANN401 - JSON
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        raise CommandFailed(
            f"the server answered {content[:80]!r}, which is not JSON", fix="is this address really a Rota API?"
        ) from None


def _refusal(status: int, content: bytes) -> CommandFailed:
    try:
        problem = json.loads(content)
    except ValueError:
        problem = {}
    cause = problem.get("detail") or problem.get("title") or f"the server answered {status}"
    named = [f"{one.get('field', '?')}: {one.get('message', '')}" for one in problem.get("errors", ()) if one]
    if named and not any(one in cause for one in named):
        cause = f"{cause} ({'; '.join(named[:5])})"
    fix = problem.get("fix") or ""
    if status in {401, 403} and not fix:
        fix = "bring a token that may do this: --token or ROTA_TOKEN"
    return CommandFailed(cause, fix=fix, code=_CODES.get(status, Exit.ERROR))

"""The server, as the command line sees it: JSON over HTTP, with every failure turned into a cause and a remedy."""

from __future__ import annotations

import http
import http.client
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from rota.cli.answers import BoundedResponse
from rota.cli.exits import CommandFailed, Exit

_CODES: Final = {
    400: Exit.USAGE,
    401: Exit.NOT_AUTHORISED,
    403: Exit.NOT_AUTHORISED,
    404: Exit.NOT_FOUND,
    409: Exit.CONFLICT,
    413: Exit.USAGE,
    422: Exit.USAGE,
    503: Exit.UNREACHABLE,
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

    def health(self) -> Any:  # noqa: ANN401 - JSON
        """Read how the server is; one that is unhealthy answers 503 and says why."""
        return self.ask("GET", "/health", is_fine=lambda status: status == http.HTTPStatus.SERVICE_UNAVAILABLE)

    def post(self, path: str, body: object = None, **query: object) -> Any:  # noqa: ANN401 - JSON
        """Ask for something to be done."""
        return self.ask("POST", path, {} if body is None else body, query=query)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        is_fine: Callable[[int], bool] = lambda _: False,
    ) -> Any:  # noqa: ANN401 - JSON
        """Send a request and read its answer; raise what a person can act on if it is a refusal."""
        wanted = {name: value for name, value in (query or {}).items() if value not in (None, "", ())}
        target = quote(path, safe="/:") + (f"?{urlencode(wanted, doseq=True)}" if wanted else "")
        problems = []
        for url in self._urls:
            try:
                return self._ask_one(url, method, target, body, is_fine)
            except (OSError, http.client.HTTPException) as error:
                problems.append(f"{url.scheme}://{url.netloc.rpartition('@')[2]}: {error}")
        raise CommandFailed(
            f"no server answers ({'; '.join(problems)})",
            fix="start one with `rota standalone`, or say where it is with --api-url or ROTA_API_URL",
            code=Exit.UNREACHABLE,
        )

    def _ask_one(self, url: SplitResult, method: str, target: str, body: object, is_fine: Callable[[int], bool]) -> Any:  # noqa: ANN401 - JSON
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
            assert isinstance(response, BoundedResponse)
            content = response.read_all()
        finally:
            connection.close()
        if response.status >= http.HTTPStatus.BAD_REQUEST and not is_fine(response.status):
            raise _refusal(response.status, content)
        return _json(content)

    def _connection(self, url: SplitResult) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(url.netloc, timeout=TIMEOUT_SECONDS)
        if url.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(url.netloc, timeout=TIMEOUT_SECONDS, context=context)
        connection.response_class = BoundedResponse
        return connection


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
    return refusal_of(status, problem if isinstance(problem, dict) else {})


def refusal_of(status: int, problem: Mapping[str, Any]) -> CommandFailed:
    """Turn a status and a problem document into a cause, a remedy and an exit code."""
    cause = problem.get("detail") or problem.get("title") or f"the server answered {status}"
    unsaid = [one for one in problem.get("errors", ()) if one and one.get("message", "") not in cause]
    if unsaid:
        named = [f"{one.get('field', '?')}: {one.get('message', '')}" for one in unsaid[:5]]
        cause = f"{cause} ({'; '.join(named)})"
    fix = problem.get("fix") or ""
    if status in {401, 403} and not fix:
        fix = "bring a token that may do this: --token or ROTA_TOKEN"
    return CommandFailed(cause, fix=fix, code=_CODES.get(status, Exit.ERROR))

"""The HTTP client of the command line: JSON requests, and every failure as a cause with a remedy.

`http.client` by itself sets a timeout for each piece of a response and keeps all pieces: a faulty server could hold a
command for ever or fill its memory. `BoundedResponse` counts the bytes as they come, and each read of the socket ends
at a deadline for the whole response. The limits are those of the Python client.
"""

from __future__ import annotations

import http
import http.client
import io
import json
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException, HTTPResponse
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from rota.cli.exits import CommandFailed, Exit
from rota.sockets import LARGEST_ANSWER, LARGEST_HEAD, LONGEST_SECONDS
from rota.tls import NO_FILES, ClientFiles

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from rota.encryption import Cipher

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
_TLS_REMEDY: Final = (
    "give the authority of the server's certificate with --ca-file or ROTA_CA_FILE; if the server asks for client"
    " certificates, --client-cert and --client-key"
)
#: Longer than the longest `wait` of a request.
TIMEOUT_SECONDS: Final = 75.0


class ApiClient:
    """Sends requests to the first of several addresses that answers."""

    def __init__(
        self,
        urls: Sequence[str],
        token: str = "",
        cipher: Cipher | None = None,
        tls: ClientFiles = NO_FILES,
        *,
        namespace: str = "",
    ) -> None:
        self._urls = [urlsplit(url) for url in urls]
        self._token = token
        self._namespace = namespace
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        #: Decrypts what the server answers; None without keys.
        self.cipher = cipher

    def get(self, path: str, **query: object) -> Any:  # noqa: ANN401 - JSON
        return self.request("GET", path, query=query)

    def health(self) -> Any:  # noqa: ANN401 - JSON
        """Read the health page, which an unhealthy server answers with 503."""
        return self.request("GET", "/health", is_accepted=lambda status: status == http.HTTPStatus.SERVICE_UNAVAILABLE)

    def post(self, path: str, body: object = None, **query: object) -> Any:  # noqa: ANN401 - JSON
        return self.request("POST", path, {} if body is None else body, query=query)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        is_accepted: Callable[[int], bool] = lambda _: False,
    ) -> Any:  # noqa: ANN401 - JSON
        """Send a request and read the response; raise `CommandFailed` if it is a refusal."""
        if path.endswith("/") or "//" in path:
            raise CommandFailed("an id or a name is empty", fix="give it; a variable may be unset", code=Exit.USAGE)
        given = {name: value for name, value in (query or {}).items() if value not in (None, ())}
        target = quote(path, safe="/:") + (f"?{urlencode(given, doseq=True)}" if given else "")
        problems = []
        fix = "start one with `rota standalone`, or give its address with --api-url or ROTA_API_URL"
        for url in self._urls:
            try:
                return self._request_to(url, method, target, body, is_accepted)
            except (OSError, http.client.HTTPException) as error:
                problems.append(f"{url.scheme}://{url.netloc.rpartition('@')[2]}: {error}")
                if isinstance(error, ssl.SSLError):
                    fix = _TLS_REMEDY
                elif url.scheme == "http" and isinstance(error, http.client.BadStatusLine | ConnectionResetError):
                    fix = "if the server speaks TLS, write https:// in its address (--api-url, ROTA_API_URL)"
        raise CommandFailed(
            f"no server answers ({'; '.join(problems)})",
            fix=fix,
            code=Exit.UNREACHABLE,
        )

    def _request_to(
        self, url: SplitResult, method: str, target: str, body: object, is_accepted: Callable[[int], bool]
    ) -> Any:  # noqa: ANN401 - JSON
        connection = self._connection(url)
        headers = {"Accept": "application/json", "User-Agent": "rota-cli", "Rota-Client": "cli"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if self._namespace:
            headers["Rota-Namespace"] = self._namespace
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
        if response.status == http.HTTPStatus.UNAUTHORIZED:
            raise self._unauthorized()
        if response.status >= http.HTTPStatus.BAD_REQUEST and not is_accepted(response.status):
            raise _refusal(response.status, content)
        return self._decrypted(_json(content))

    def _unauthorized(self) -> CommandFailed:
        """Say what is wrong with the token: to a caller without one the server says no more."""
        if not self._token:
            cause, fix = "this server requires a token", "set it in ROTA_TOKEN"
        else:
            cause = "this server did not accept the token: it is wrong, expired, or revoked"
            fix = "set another one in ROTA_TOKEN"
        return CommandFailed(cause, fix=fix, code=Exit.NOT_AUTHORISED)

    def _decrypted(self, answer: Any) -> Any:  # noqa: ANN401 - JSON
        if self.cipher is None:
            return answer
        # Imported when needed: it is an extra.
        from rota.encryption.cipher import opened_within  # noqa: PLC0415

        return opened_within(self.cipher, answer, keep_unreadable=True)

    def _connection(self, url: SplitResult) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(url.netloc, timeout=TIMEOUT_SECONDS)
        if url.scheme == "https":
            self._context = self._context or self._tls.context()
            connection = http.client.HTTPSConnection(url.netloc, timeout=TIMEOUT_SECONDS, context=self._context)
        connection.response_class = BoundedResponse
        return connection


def _json(content: bytes) -> Any:  # noqa: ANN401 - JSON
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        raise CommandFailed(
            f"the server answered {content[:80]!r}, which is not JSON",
            fix="check the address: is it a Rota API?",
        ) from None


def _refusal(status: int, content: bytes) -> CommandFailed:
    try:
        problem = json.loads(content)
    except ValueError:
        problem = {}
    return refusal_of(status, problem if isinstance(problem, dict) else {})


def refusal_of(status: int, problem: Mapping[str, Any]) -> CommandFailed:
    """Make an error with cause, remedy and exit code from a status and a problem document."""
    cause = problem.get("detail") or problem.get("title") or f"the server answered {status}"
    others = [error for error in problem.get("errors", ()) if error and error.get("message", "") not in cause]
    if others:
        named = [f"{error.get('field', '?')}: {error.get('message', '')}" for error in others[:5]]
        cause = f"{cause} ({'; '.join(named)})"
    fix = problem.get("fix") or ""
    if status in {401, 403} and not fix:
        fix = "give a token that may do this: --token or ROTA_TOKEN"
    return CommandFailed(cause, fix=fix, code=_CODES.get(status, Exit.ERROR))


class BoundedResponse(HTTPResponse):
    """A response that fails if it is too large or takes too long."""

    def __init__(self, sock: socket.socket, debuglevel: int = 0, method: str | None = None) -> None:
        super().__init__(sock, debuglevel, method)
        self._bounded = _BoundedReader(sock, self.fp.detach())
        self.fp = io.BufferedReader(self._bounded)

    def begin(self) -> None:
        super().begin()
        self._bounded.most = LARGEST_ANSWER

    def read_all(self) -> bytes:
        """Read the body up to our limit: otherwise the length that the server claims would be allocated at once."""
        content = self.read(LARGEST_ANSWER + 1)
        # A longer body is cut here, and the rest is not read.
        if len(content) > LARGEST_ANSWER:
            raise _too_large(len(content))
        return content


class _BoundedReader(io.RawIOBase):
    """Reads from a socket up to a number of bytes and a deadline."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase) -> None:
        super().__init__()
        self._sock, self._raw = sock, raw
        # The first piece may take as long as the timeout of the connection.
        self._seconds = sock.gettimeout() or 0.0
        self._until = monotonic() + self._seconds + LONGEST_SECONDS
        self._received = 0
        self.most = LARGEST_HEAD

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        if self._received > self.most:
            raise _too_large(self._received)
        left = self._until - monotonic()
        # Never 0, which would make the socket non-blocking.
        self._sock.settimeout(max(min(self._seconds, left), 0.001))
        try:
            count = self._raw.readinto(buffer) or 0
        except TimeoutError:
            message = "the answer took too long to come" if self._received else f"no answer within {self._seconds:g} s"
            raise TimeoutError(message) from None
        if monotonic() > self._until:
            raise TimeoutError("the answer took too long to come")
        self._received += count
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _too_large(received: int) -> HTTPException:
    return HTTPException(f"the answer is too large: over {received} bytes")

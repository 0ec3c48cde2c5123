"""The dashboard's static files, served below `/ui` as an ASGI application of its own.

The files are built from `ui/` (`make ui`) into `ui_files` beside this module. Files whose names have a hash of their
content may be cached forever. Every other address below `/ui` gets the same HTML page, in which the client's router
shows what the address names, so that links into the dashboard work. The page refers to its files by relative URLs, so
it works below any prefix that a proxy adds.

Static files need no token, since they contain nothing about the deployment; every request that the dashboard makes to
the API does. The API's other checks of a request (size, host) hold here too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from gzip import compress
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import quote

from rota.api.errors import HttpError
from rota.api.http import AsgiScope, Send

FILES: Final = Path(__file__).parent / "ui_files"
PREFIX: Final = "/ui"
POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_ALWAYS: Final = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_MEDIA: Final = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_FOREVER: Final = b"public, max-age=31536000, immutable"
_ASK_FIRST: Final = b"no-cache"
_FORWARDED_PREFIX: Final = re.compile(rb"(/[A-Za-z0-9._~-]+)*/?")
_NOT_BUILT: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Rota: the dashboard is not built</title></head>
<body><h1>The dashboard is not built</h1>
<p>This copy of Rota runs from its sources, and the dashboard's files are missing. Build them, then load this page
again:</p>
<pre>make ui</pre>
<p>An installed package has them. The API works without them: <a href="{root}../docs">its description</a>.</p>
</body></html>
"""


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of the dashboard in memory, with its media type, ETag and encoding."""

    content: bytes
    media: bytes
    etag: bytes
    encoding: bytes = b""


def is_below(path: str) -> bool:
    """Return whether a path belongs to the dashboard."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def wants_page(scope: AsgiScope, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a browser asks for the bare address, which leads it to the dashboard."""
    return scope["method"] in {"GET", "HEAD"} and b"text/html" in headers.get(b"accept", b"")


async def redirect(root: str, headers: Mapping[bytes, bytes], send: Send) -> None:
    """Lead a browser from the bare address to the dashboard; `root` is where another application mounts the API."""
    prefix = headers.get(b"x-forwarded-prefix", b"")
    if not _FORWARDED_PREFIX.fullmatch(prefix):
        prefix = b""
    mount = quote(root.rstrip("/")).encode()
    prefix = prefix.rstrip(b"/")
    if not mount.startswith(prefix):
        mount = prefix + mount
    place = (mount or prefix) + b"/ui" if mount or prefix else b"ui"
    await _send(send, 303, b"", (b"location", place), (b"cache-control", b"no-store"), (b"vary", b"accept"))


async def serve_ui(path: str, scope: AsgiScope, headers: Mapping[bytes, bytes], send: Send) -> None:
    """Answer with a file or with the page; `path` begins with the dashboard's prefix."""
    if scope["method"] not in {"GET", "HEAD"}:
        detail = f"{scope['method']} is not possible here; GET, HEAD are"
        raise HttpError(405, "method_not_allowed", detail, headers={"Allow": "GET, HEAD"})
    name = path.removeprefix(PREFIX).lstrip("/")
    if name.startswith("assets/") or name == "icon.svg":
        plain = _files().get(name)
        if plain is None:
            raise HttpError(404, "not_found", "the dashboard has no such file", fix="load the page again")
        found = _compressed(plain) if b"gzip" in headers.get(b"accept-encoding", b"") else plain
        cache = _FOREVER if name.startswith("assets/") else _ASK_FIRST
    else:
        # A slash within a name is encoded; for a browser it divides nothing.
        within_names = scope.get("raw_path", b"").lower().count(b"%2f")
        found, cache = _page(root_of(path, within_names)), _ASK_FIRST
    is_known = headers.get(b"if-none-match") == found.etag
    body = b"" if is_known or scope["method"] == "HEAD" else found.content
    length = () if is_known else ((b"content-length", b"%d" % len(found.content)),)
    encoding = ((b"content-encoding", found.encoding),) if found.encoding else ()
    more = ((b"content-type", found.media), (b"cache-control", cache), (b"etag", found.etag), *length, *encoding)
    await _send(send, 304 if is_known else 200, body, (b"vary", b"accept-encoding"), *more)


def root_of(path: str, within_names: int = 0) -> str:
    """Return the relative URL that leads from a path to the dashboard's files; some slashes are within names."""
    inside = path.removeprefix(PREFIX)
    depth = inside.count("/") - within_names
    return "ui/" if not inside else "./" if depth == 1 else "../" * (depth - 1)


async def _send(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *_ALWAYS]})
    await send({"type": "http.response.body", "body": body})


@lru_cache(maxsize=64)
def _page(root: str) -> StaticFile:
    page = _files().get("index.html")
    text = _NOT_BUILT if page is None else page.content.decode()
    return _static(text.replace("{root}", escape(root)).encode(), ".html")


@lru_cache(maxsize=1)
def _files() -> Mapping[str, StaticFile]:
    """Read all files; there are a few dozen small ones."""
    paths = (path for path in sorted(FILES.rglob("*")) if path.suffix in _MEDIA)
    return {path.relative_to(FILES).as_posix(): _static(path.read_bytes(), path.suffix) for path in paths}


@lru_cache(maxsize=256)
def _compressed(file: StaticFile) -> StaticFile:
    return StaticFile(compress(file.content, mtime=0), file.media, b'"gzip-%b' % file.etag[1:], b"gzip")


def _static(content: bytes, suffix: str) -> StaticFile:
    return StaticFile(content, _MEDIA[suffix], b'"%b"' % sha256(content).hexdigest()[:32].encode())

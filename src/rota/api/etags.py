"""ETags of answers: a client that has the same answer already gets an empty 304.

The tag of one job or schedule is strong and changes with its row; `If-Match` uses it. All other answers below `/v1` get
a weak tag of their content, so that polling a list costs no bytes and no parsing while nothing changes.
"""

from __future__ import annotations

from hashlib import blake2b
from http import HTTPStatus
from typing import Final

from rota.api.http import JSON, AsgiScope, Response

_TAG: Final = b"etag"
_SAFE: Final = frozenset({"GET", "HEAD"})
_PREFIX: Final = "/v1/"


def with_etag(response: Response, scope: AsgiScope) -> Response:
    """Return an answer its tag, or the 304 for a client that named this tag."""
    if response.status != HTTPStatus.OK or scope["method"] not in _SAFE:
        return response
    tag = next((value for name, value in response.headers if name == _TAG), None)
    if tag is None:
        if response.media != JSON or _PREFIX not in scope["path"]:
            return response
        tag = b'W/"%b"' % blake2b(response.body, digest_size=8).hexdigest().encode()
        response.headers.append((_TAG, tag))
    known = next((value for name, value in scope["headers"] if name == b"if-none-match"), None)
    if known is None or not _names(known, tag):
        return response
    return Response(b"", HTTPStatus.NOT_MODIFIED, [(_TAG, tag)], media="")


def _names(header: bytes, tag: bytes) -> bool:
    """Return whether `If-None-Match` names a tag; weak and strong tags of the same text are equal here."""
    plain = tag.removeprefix(b"W/")
    return any(one.strip().removeprefix(b"W/") in {plain, b"*"} for one in header.split(b","))

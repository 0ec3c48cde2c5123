"""Sending an answer that is ready in one piece, where the server below is our own.

ASGI has an answer sent as a head and a body, each a message of its own, which uvicorn takes apart, checks and writes
one by one. Our server (`guarding`) leaves in the scope of a request what can send both at once, and `endpoint` uses it
where it is there. What is written is, byte for byte, what uvicorn would write.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from rota.api.calls import Answer
from rota.api.packing import PackingTransport

Headers = tuple[tuple[bytes, bytes], ...]
#: Said in every answer: nothing here is to be kept by caches or guessed at.
ALWAYS: Final[Headers] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
#: What is read and set here, and in `receiving`, of uvicorn's own, none of which it promises to anybody.
_FIELDS: Final = frozenset(
    {
        "access_log", "body", "default_headers", "disconnected", "flow", "keep_alive", "message_event", "more_body",
        "on_response", "response_complete", "response_started", "scope", "transport", "waiting_for_100_continue",
    }
)  # fmt: skip
#: What uvicorn refuses in a value.
_CONTROLS: Final = bytes({*range(0x20), 0x7F} - {0x09})


def reply(cycle: RequestResponseCycle, answer: Answer) -> bool:
    """Answer a request of uvicorn's in one piece; False, and nothing done, if it has to go the long way."""
    if cycle.response_started or cycle.flow.write_paused or cycle.access_log:
        return False
    if cycle.disconnected:
        return True
    body, keep_alive, lines = answer.body, cycle.keep_alive, b""
    for name, value in answer.headers:
        if name == b"connection" or len(value.translate(None, _CONTROLS)) != len(value):
            # It means something to uvicorn, or is refused there.
            return False
        lines += b"%b: %b\r\n" % (name, value)
    start, end = _start(answer.status, tuple(cycle.default_headers)), _end(answer.media, keep_alive)
    sent = b"" if cycle.scope["method"] == "HEAD" else body
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    transport = cast("PackingTransport", cycle.transport)
    transport.send(b"%b%d\r\n%b%b%b" % (start, len(body), lines, end, sent))
    cycle.message_event.set()
    if not keep_alive:
        transport.close()
    cycle.on_response()
    return True


def knows(cycle: type) -> bool:
    """Say whether uvicorn answers as we know it; where a release does not, answers go the long way."""
    return frozenset(cycle.__init__.__code__.co_names) >= _FIELDS  # type: ignore[misc]


# Cached, since one of its lines is the date, and it changes once in a second.
@lru_cache(maxsize=64)
def _start(status: int, common: Headers) -> bytes:
    lines = b"".join(b"%b: %b\r\n" % line for line in (*common, *ALWAYS))
    return STATUS_LINE[status] + lines + b"content-length: "


@lru_cache(maxsize=64)
def _end(media: str, keep_alive: bool) -> bytes:  # noqa: FBT001 - a part of what is cached
    line = b"content-type: %b\r\n" % media.encode() if media else b""
    return line + (b"\r\n" if keep_alive else b"connection: close\r\n\r\n")

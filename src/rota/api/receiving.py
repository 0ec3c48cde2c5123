"""Taking the body of a request in one piece, where the server below is our own and all of it is there.

ASGI hands a body over by a coroutine and in a message, which is as much work as to read the job in it. Nearly always a
request has come whole before anybody looks at it. Our server (`guarding`) leaves in its scope where it is; whatever is
not plain goes the long way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: Where in a scope uvicorn's own object for a request and its answer is found.
CYCLE: Final = "rota.cycle"


def whole_body(scope: Mapping[str, Any]) -> bytes | None:
    """Take the body if all of it is there; None, and nothing done, if it has to be asked for."""
    cycle = scope.get(CYCLE)
    if cycle is None or cycle.more_body or cycle.waiting_for_100_continue or cycle.disconnected:
        return None
    body: bytearray = cycle.body
    cycle.body = bytearray()
    # As uvicorn when it is asked: it stops to read when a body is large or another request is behind it.
    cycle.flow.resume_reading()
    # What comes next is that the caller is gone.
    cycle.message_event.clear()
    return bytes(body)

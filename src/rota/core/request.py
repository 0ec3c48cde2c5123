"""The canonical hash of a request to submit a job, kept beside its idempotency key.

A key that comes again with an equal request stands for the first job, and with another request it is refused. Equal
means: the same job is asked for. It does not matter by which way the request came (HTTP, Python over HTTP, Python on a
store), whether a default was written out, or in which order or spacing its JSON was written. So the hash is made of the
request with all defaults filled in. Times are taken as they were given: a delay stays a delay, since a repeated call
counts it from another moment. Another trace makes no other request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from rota.core.instant import span_to_micros, to_micros
from rota.core.retry import Backoff
from rota.core.submission import Dependency, Template, request_hash
from rota.core.trace import TRACEPARENT

#: Fields that are as a template has them by default are left out, so a new field changes the hash of no old request.
_DEFAULT: Final = Template("")


def hash_of_request(template: Template, *, run_at: datetime | None = None, after: Sequence[Dependency] = ()) -> bytes:
    """Give the hash of a request for a job of this template."""
    plain = _plain(template)
    if run_at is not None:
        plain["run_at"] = to_micros(run_at)
    if after:
        plain["after"] = sorted({(one.on, one.need) for one in after})
    return request_hash(_written(plain).encode())


def _plain(template: Template) -> dict[str, Any]:
    fields = {name: getattr(template, name) for name in Template.__slots__}
    return {
        name: shown
        for name, value in fields.items()
        if value != getattr(_DEFAULT, name) and (shown := _shown(name, value)) not in (None, {})
    }


def _shown(name: str, value: object) -> object:
    match value:
        case timedelta():
            # No delay and a delay of nothing are one.
            return span_to_micros(value) or (None if name == "delay" else 0)
        case Backoff():
            return value.to_text()
        case Template():
            return _plain(value)
        case Mapping():
            return {key: word for key, word in value.items() if key != TRACEPARENT}
        case str() if name == "payload":
            return _payload(value)
        case _:
            return value


def _payload(text: str) -> object:
    """Read a payload; what this parser does not take is compared letter by letter."""
    try:
        return {"json": json.loads(text)}
    except (ValueError, RecursionError):
        return {"text": text}


def _written(plain: object) -> str:
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))

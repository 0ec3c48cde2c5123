"""The canonical hash of a submission, stored with its idempotency key.

A key that is used again with an equal request returns the first job; with another request it is refused. Requests for
the same job are equal, whether they come over HTTP or from Python, with or without explicit defaults, and however their
JSON is formatted. So the hash covers the request with all defaults filled in. Times count as they were given: a delay
stays a delay, since a repeated call counts it from another moment. The trace is not part of the request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from rota.core.graph import NodeParent
from rota.core.retry import Backoff
from rota.core.submission import Dependency, Template, request_hash
from rota.core.time import span_to_micros, to_micros
from rota.core.trace import TRACEPARENT

#: Fields with their default value are left out, so that a new field does not change the hash of older requests.
_DEFAULT: Final = Template("")


def canonical_request_hash(
    template: Template, *, run_at: datetime | None = None, after: Sequence[Dependency] = ()
) -> bytes:
    """Return the hash of a submission of this template."""
    plain = _plain(template)
    if run_at is not None:
        plain["run_at"] = to_micros(run_at)
    if after:
        plain["after"] = sorted({(one.on, one.need) for one in after})
    return request_hash(_written(plain).encode())


def workflow_hash(name: str, policy: str, nodes: Sequence[tuple[str, bytes, Sequence[NodeParent]]]) -> bytes:
    """Return the hash of a workflow: of its name, and of each node's name, canonical hash and dependencies."""
    plain = [
        [node, one.hex(), [[parent.position, parent.job_id, parent.need] for parent in parents]]
        for node, one, parents in nodes
    ]
    return request_hash(_written([name, policy, plain]).encode())


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
            # A delay of zero equals no delay.
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
    """Parse a payload; one that cannot be parsed is compared as text."""
    try:
        return {"json": json.loads(text)}
    except (ValueError, RecursionError):
        return {"text": text}


def _written(plain: object) -> str:
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))

"""Trace context: the W3C `traceparent` that a submitter puts into a job's meta.

The attempts of the job and its follow-up jobs belong to the same trace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

#: The key in a job's meta, and the name of the HTTP header.
TRACEPARENT: Final = "traceparent"
_FORM: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def trace_of(meta: Mapping[str, str]) -> str | None:
    """Return the trace id of a job."""
    match = _FORM.fullmatch(meta.get(TRACEPARENT, "")) if meta else None
    return None if match is None else match[1]


def is_traceparent(text: str) -> bool:
    """Whether a text is a valid `traceparent`; an invalid one is ignored, not refused."""
    return _FORM.fullmatch(text) is not None


def traced(meta: Mapping[str, str], traceparent: str | None) -> Mapping[str, str]:
    """Add a `traceparent` to a job's meta, unless it has one."""
    if traceparent is None or TRACEPARENT in meta:
        return meta
    return {**meta, TRACEPARENT: traceparent}

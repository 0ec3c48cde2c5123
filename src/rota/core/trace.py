"""Traces: the word by which what happens for one request is found again, wherever it happens.

A job carries the `traceparent` of W3C's Trace Context among its meta, put there by whoever submits it. What runs for
the job, and what follows it, belongs to the same trace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

#: Under which name the word is kept in a job's meta, and comes in a request's header.
TRACEPARENT: Final = "traceparent"
_FORM: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def trace_of(meta: Mapping[str, str]) -> str | None:
    """Give the id of the trace that a job belongs to."""
    found = _FORM.fullmatch(meta.get(TRACEPARENT, "")) if meta else None
    return None if found is None else found[1]


def is_traceparent(text: str) -> bool:
    """Whether this is such a word; what is none is to be ignored, not refused."""
    return _FORM.fullmatch(text) is not None


def traced(meta: Mapping[str, str], traceparent: str | None) -> Mapping[str, str]:
    """Add the word to a job's meta, unless there is one or none is to be added."""
    if traceparent is None or TRACEPARENT in meta:
        return meta
    return {**meta, TRACEPARENT: traceparent}

"""Request headers that routes read: their syntax, and their description in the OpenAPI document.

A route declares the headers it reads. The router checks their values before the route runs, and the OpenAPI document
describes them, so a header cannot be read without being checked and described.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rota.api.aliases import unquoted_key
from rota.api.errors import invalid
from rota.wire.scalars import Name

#: What an operator's request can come through, for the ledger.
SURFACES: Final = ("api", "cli", "ui", "sdk")
#: The longest value of any of these headers.
_LONGEST: Final = 204
_MOST_DIGITS: Final = 4
_PREFER: Final = re.compile(r"[ -~]{1,204}")


@dataclass(frozen=True, slots=True)
class Header:
    """A request header. `fault` says what is wrong with a value, or returns None; without it every value is valid."""

    name: str
    about: str
    example: str
    fault: Callable[[str], str | None] | None = None
    #: The pattern of the published schema.
    pattern: str = "^[ -~]+$"

    @property
    def key(self) -> bytes:
        """The name in ASGI's spelling."""
        return self.name.lower().encode()

    def check(self, text: str) -> str | None:
        """Return what is wrong with a value; None if nothing is."""
        return None if self.fault is None else self.fault(text)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of its values."""
        if self.fault is None:
            return {"type": "string"}
        return {"type": "string", "minLength": 1, "maxLength": _LONGEST, "pattern": self.pattern}


def _matching(pattern: str, remedy: str) -> Callable[[str], str | None]:
    compiled = re.compile(pattern.removeprefix("^").removesuffix("$"), re.ASCII)

    def fault(text: str) -> str | None:
        return None if compiled.fullmatch(text) else f"{text[:40]!r} is not valid; {remedy}"

    return fault


def _key_fault(text: str) -> str | None:
    try:
        msgspec.convert(unquoted_key(text), Name)
    except msgspec.ValidationError as error:
        return f"{error}; a key has 1 to 200 characters and no control characters"
    return None


def _preference_fault(text: str) -> str | None:
    if _PREFER.fullmatch(text) is None:
        return "a preference has 1 to 204 characters of ASCII"
    try:
        preferred_wait(text)
    except ValueError as error:
        return str(error)
    return None


def preferred_wait(text: str) -> float | None:
    """Parse `wait=30` in a `Prefer` header (RFC 7240); unknown preferences are ignored, as the RFC demands."""
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name.strip().lower() == "wait":
            seconds = value.strip()
            if not (seconds.isascii() and seconds.isdigit() and len(seconds) <= _MOST_DIGITS):
                raise ValueError(f"wait: {seconds[:20]!r} is not valid; write wait=30, in whole seconds")
            return float(seconds)
    return None


def surface_of(headers: Mapping[bytes, bytes]) -> str:
    """Return what a request came through, as the header `Rota-Client` says; `api` without it."""
    surface = headers.get(b"rota-client", b"api").decode("latin-1")
    if surface not in SURFACES:
        message = f"{surface[:40]!r} is unknown; send one of {', '.join(SURFACES)}, or leave this header out"
        raise invalid([("Rota-Client", message)])
    return surface


_EVENT: Final = r"^[0-9a-f]{8}-[0-9]{1,18}$"
_JOB_STATE: Final = r"^[0-9]{1,19}-[a-z]{1,12}-[0-9]{1,18}$"
_TAGS: Final = r'^(\*|(W/)?"[!#-~]{0,40}"( ?, ?(W/)?"[!#-~]{0,40}"){0,3})$'

IDEMPOTENCY_KEY: Final = Header(
    "Idempotency-Key",
    "The same key with the same request creates nothing and returns what the first request created.",
    '"order-17"',
    _key_fault,
    "^[!-~]+$",
)
IF_MATCH: Final = Header(
    "If-Match",
    "Apply the change only if the ETag is still this one.",
    '"3"',
    _matching(_TAGS, 'send an ETag as it was given, in quotes, or "*"'),
    _TAGS,
)
LAST_EVENT: Final = Header(
    "Last-Event-ID",
    "Continue the live stream behind the event with this id.",
    "0123abcd-17",
    _matching(_EVENT, "send the id of the last event as it was given, or leave this header out"),
    _EVENT,
)
LAST_STATE: Final = Header(
    "Last-Event-ID",
    "Leave out the state of the job that was sent with this id.",
    "1-running-1700000000000000",
    _matching(_JOB_STATE, "send the id of the last event as it was given, or leave this header out"),
    _JOB_STATE,
)
PREFER: Final = Header(
    "Prefer",
    "`wait=30` waits up to 30 seconds, as `?wait=30` does. Other preferences are ignored.",
    "wait=30",
    _preference_fault,
)
ACCEPT: Final = Header("Accept", "Prometheus text if this names it, JSON otherwise.", "text/plain")
ACCEPT_PAGE: Final = Header(
    "Accept", "A browser (text/html) is redirected to the dashboard, unless that is switched off.", "text/html"
)
TRACEPARENT: Final = Header(
    "traceparent",
    "The trace that the job belongs to (W3C Trace Context). An invalid value is ignored, as that standard demands.",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
)

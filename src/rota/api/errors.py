"""Refusals: which error answers with which status, and how it is said.

Whoever asked wrongly is told what and why; what went wrong inside is logged here and not told (S31).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final

from rota.core.errors import (
    CoordinatorUnavailable,
    IllegalTransition,
    InvalidCron,
    InvalidRequest,
    JobNotFound,
    KeyReused,
    LeaseLost,
    QueueFull,
    RotaError,
    ScheduleNotFound,
    Unavailable,
)
from rota.wire.problem import FieldError, Problem

RETRY_SECONDS: Final = "1"
_log = logging.getLogger("rota.api")


class Refusal(RotaError):
    """An answer that is no success, with all that it says."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: Iterable[tuple[str, str]] = (),
        fix: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.fix = fix
        self.headers = dict(headers or {})

    def problem(self) -> Problem:
        """Say it in the form that all refusals have."""
        return Problem(
            type=f"urn:rota:problem:{self.code}",
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=self.detail,
            code=self.code,
            errors=[FieldError(field=field, message=message) for field, message in self.errors],
            fix=self.fix,
        )


def malformed(detail: str) -> Refusal:
    """Refuse what is not JSON."""
    return Refusal(400, "invalid_json", detail, fix="send one JSON document, UTF-8, without NaN or Infinity")


def invalid(errors: Iterable[tuple[str, str]]) -> Refusal:
    """Refuse wrong values, naming each."""
    listed = tuple((field, _bare(field, message)) for field, message in errors)
    detail = "; ".join(message if message.startswith(field) else f"{field}: {message}" for field, message in listed)
    return Refusal(422, "invalid_request", detail[:2_000], errors=listed)


def _bare(field: str, message: str) -> str:
    """Leave out a field's name before the message about it: it stands beside it already."""
    name, colon, rest = message.partition(": ")
    return rest if colon and (name == field or field.endswith(f".{name}")) else message


def too_busy(detail: str) -> Refusal:
    """Refuse what is too much just now."""
    return Refusal(429, "too_many_requests", detail, fix="wait a little", headers={"Retry-After": RETRY_SECONDS})


def not_counted() -> Refusal:
    """Refuse to give counts before there are any."""
    return Refusal(
        503,
        "not_counted",
        "the jobs are still being counted for the first time, which takes some seconds with millions of them",
        fix="ask again in a moment",
        headers={"Retry-After": RETRY_SECONDS},
    )


def refusal_of(error: Exception) -> Refusal:
    """Find the answer to an error."""
    match error:
        case Refusal():
            return error
        case JobNotFound() | ScheduleNotFound():
            return Refusal(404, "not_found", str(error))
        case IllegalTransition():
            return Refusal(409, "conflict", str(error))
        case KeyReused():
            return Refusal(422, "key_reused", str(error), errors=[("idempotency_key", str(error))])
        case InvalidCron():
            # Its own field is the one of five within the expression; the sentence names that.
            return invalid([("cron", str(error))])
        case InvalidRequest():
            return invalid([(error.field or "request", str(error))])
        case LeaseLost():
            return Refusal(409, "stale_lease", str(error))
        case QueueFull():
            headers = {"Retry-After": RETRY_SECONDS}
            return Refusal(
                429,
                "queue_full",
                str(error),
                fix="submit again later, or raise its bound (rota queues set-limit)",
                headers=headers,
            )
        case Unavailable():
            return _unavailable(error)
        case _:
            _log.error("a request failed", exc_info=error)
            return Refusal(500, "internal", "something went wrong on the server; it was logged")


def _unavailable(error: Unavailable) -> Refusal:
    headers = {"Retry-After": RETRY_SECONDS}
    if isinstance(error, CoordinatorUnavailable):
        _log.warning("the coordinator is unavailable: %s", error)
        detail = "the coordinator is unavailable; jobs run without it"
        return Refusal(503, "coordinator_unavailable", detail, headers=headers)
    _log.warning("the store is unavailable: %s", error)
    return Refusal(503, "store_unavailable", "the store is unavailable; nothing was changed", headers=headers)

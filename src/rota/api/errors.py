"""HTTP errors: which exception gets which status, and its body (RFC 9457, problem details).

A wrong request gets an error that names the field, the value and the remedy. Unexpected exceptions are logged here, and
the response does not show them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

from rota.core.errors import (
    CoordinatorUnavailable,
    IllegalTransition,
    InvalidCron,
    InvalidRequest,
    JobNotFound,
    KeyReused,
    LeaseLost,
    NamespaceFull,
    NamespaceNotFound,
    QueueFull,
    RotaError,
    ScheduleNotFound,
    TokenNotFound,
    Unavailable,
    WebhookNotFound,
    WorkerNotFound,
)
from rota.wire.problem import FieldError, Problem

RETRY_SECONDS: Final = "1"
_log = logging.getLogger("rota.api")


class HttpError(RotaError):
    """An error response. `code` is for programs, `detail` and `fix` are for people."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: Iterable[tuple[str, str]] = (),
        fix: str = "",
        headers: Mapping[str, str] | None = None,
        estimates: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.fix = fix
        self.headers = dict(headers or {})
        self.estimates = dict(estimates or {})

    def problem(self) -> Problem:
        """Return the body of the response."""
        return Problem(
            type=f"urn:rota:problem:{self.code}",
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=self.detail,
            code=self.code,
            errors=[FieldError(field=field, message=message) for field, message in self.errors],
            fix=self.fix,
            **self.estimates,
        )


def malformed(detail: str) -> HttpError:
    """Make the error for a body that is not JSON."""
    return HttpError(400, "invalid_json", detail, fix="send one JSON document, UTF-8, without NaN or Infinity")


def invalid(errors: Iterable[tuple[str, str]]) -> HttpError:
    """Make the error for wrong values, given as pairs of field and message."""
    listed = tuple((field, _bare(field, message)) for field, message in errors)
    detail = "; ".join(message if message.startswith(field) else f"{field}: {message}" for field, message in listed)
    return HttpError(422, "invalid_request", detail[:2_000], errors=listed)


def _bare(field: str, message: str) -> str:
    """Remove the field's name from the front of its message: the response shows it beside the message."""
    name, colon, rest = message.partition(": ")
    return rest if colon and (name == field or field.endswith(f".{name}")) else message


def too_many_requests(detail: str) -> HttpError:
    return HttpError(429, "too_many_requests", detail, fix="wait a little", headers={"Retry-After": RETRY_SECONDS})


def body_too_large(most_bytes: int) -> HttpError:
    return HttpError(413, "too_large", f"the body is larger than {most_bytes} bytes", fix="send less at once")


def not_counted() -> HttpError:
    return HttpError(
        503,
        "not_counted",
        "the jobs are still being counted for the first time, which takes some seconds with millions of them",
        fix="ask again in a moment",
        headers={"Retry-After": RETRY_SECONDS},
    )


def http_error_of(error: Exception) -> HttpError:
    """Map an exception to its response; log it if it is unexpected."""
    match error:
        case HttpError():
            return error
        case (
            JobNotFound()
            | ScheduleNotFound()
            | TokenNotFound()
            | WebhookNotFound()
            | WorkerNotFound()
            | NamespaceNotFound()
        ):
            return HttpError(404, "not_found", str(error))
        case IllegalTransition():
            return HttpError(409, "conflict", str(error))
        case KeyReused():
            return HttpError(422, "key_reused", str(error), errors=[("idempotency_key", str(error))])
        case InvalidCron():
            # The error's own field is one of the five of the expression; its message names it.
            return invalid([("cron", str(error))])
        case InvalidRequest():
            return invalid([(error.field or "request", str(error))])
        case LeaseLost():
            return HttpError(409, "stale_lease", str(error))
        case QueueFull() | NamespaceFull():
            return _full(error)
        case Unavailable():
            return _unavailable(error)
        case _:
            _log.error("unexpected error in a request", exc_info=error)
            return HttpError(500, "internal", "something went wrong on the server; it was logged")


def _full(error: QueueFull | NamespaceFull) -> HttpError:
    if isinstance(error, NamespaceFull):
        fix = "submit again later, or raise its limit (rota namespaces set-limits)"
        return HttpError(429, "namespace_full", str(error), fix=fix, headers={"Retry-After": RETRY_SECONDS})
    wait = timedelta(seconds=int(RETRY_SECONDS)) if error.retry_after is None else error.retry_after
    return HttpError(
        429,
        "queue_full",
        str(error),
        fix="submit again later, or raise its bound (rota queues set-limit)",
        headers={"Retry-After": f"{wait.total_seconds():.0f}"},
        estimates={
            "position": error.position,
            "expected_start": error.expected_start,
            "retry_after": wait.total_seconds(),
        },
    )


def _unavailable(error: Unavailable) -> HttpError:
    headers = {"Retry-After": RETRY_SECONDS}
    if isinstance(error, CoordinatorUnavailable):
        _log.warning("the coordinator is unavailable: %s", error)
        detail = "the coordinator is unavailable; jobs run without it"
        return HttpError(503, "coordinator_unavailable", detail, headers=headers)
    _log.warning("the store is unavailable: %s", error)
    return HttpError(503, "store_unavailable", "the store is unavailable; nothing was changed", headers=headers)

"""Redaction of answers: what a caller may read of a job but not see.

Payloads, results and the like are the users' own data. A caller without the action `payloads.read` gets `[redacted]`
in their place; one without `secrets.read` gets it in place of the values of secret keys (setting `redact_keys`), and
passwords in messages are replaced. It is done in one place, for the forms of all answers: any field that holds a
user's JSON (`Raw`) is redacted, and so are the texts named in `TEXTS`. Answers to workers are left as they are, since
a worker needs the payload; and so are answers to a caller about what it has just sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from rota.api.errors import HttpError, invalid
from rota.core.access import Action
from rota.core.redaction import REDACTED, redacted
from rota.core.search.terms import ErrorTerm, NotTerm, PayloadTerm
from rota.ports.store import JobQuery
from rota.wire.jobs import AttemptForm, ErrorForm
from rota.wire.logs import LogForm, LogLineForm, ProgressForm
from rota.wire.system import ReasonForm
from rota.wire.webhooks import DeliveryForm
from rota.wire.workflows import NodeErrorForm

if TYPE_CHECKING:
    from rota.api.http import Request, Response
    from rota.api.router import Route
    from rota.api.settings import ApiKey

T = TypeVar("T")
#: Texts that a handler wrote, by form.
TEXTS: Final[dict[type[Struct], tuple[str, ...]]] = {
    ErrorForm: ("message", "traceback"),
    NodeErrorForm: ("message",),
    AttemptForm: ("progress", "log_tail"),
    ProgressForm: ("message",),
    LogForm: ("encrypted",),
    LogLineForm: ("message",),
}
#: Forms without any data of users: the error of a delivery is Rota's own.
OWN: Final = (DeliveryForm,)
_NULL: Final = b"null"
_RAW_REDACTED: Final = Raw(msgspec.json.encode(REDACTED))


def redact_response(response: Response, route: Route, request: Request) -> None:
    """Replace what the caller of a request may not see in a complete response."""
    if route.action is not Action.WORK and isinstance(response.form, Struct | list):
        shown = visible(request, response.form)
        if shown is not response.form:
            response.body = msgspec.json.encode(shown)


def visible(request: Request, form: T) -> T:
    """Return a form as the caller of a request may see it; the same object if there is nothing to hide."""
    actions = request.key.actions
    if Action.SECRETS_READ in actions:
        return form
    shown: T = _Redactor(request, sees_payloads=Action.PAYLOADS_READ in actions).redact(form)
    return shown


def visible_progress(request: Request, progress: ProgressForm | str | None) -> ProgressForm | str | None:
    """Return progress, also as text, as the caller of a request may see it."""
    actions = request.key.actions
    if not isinstance(progress, str):
        return visible(request, progress)
    if Action.SECRETS_READ in actions:
        return progress
    return redacted(progress) if Action.PAYLOADS_READ in actions else REDACTED


class _Redactor:
    """Walks through the forms of an answer."""

    def __init__(self, request: Request, *, sees_payloads: bool) -> None:
        self._keys = request.context.settings.secret_keys
        self._sees_payloads = sees_payloads

    def redact(self, form: Any) -> Any:  # noqa: ANN401 - forms of all kinds
        if isinstance(form, OWN):
            return form
        if isinstance(form, Struct):
            return self._struct(form)
        if isinstance(form, list):
            items = [self.redact(one) for one in form]
            return form if all(one is other for one, other in zip(items, form, strict=True)) else items
        return self._data(form) if isinstance(form, Raw) else form

    def _struct(self, form: Struct) -> Struct:
        texts = next((names for kind, names in TEXTS.items() if isinstance(form, kind)), ())
        changes: dict[str, Any] = {}
        for name in form.__struct_fields__:
            value = getattr(form, name)
            if name in texts and not isinstance(value, Struct):
                shown: Any = self._text(value)
            elif name == "meta" and isinstance(value, dict):
                shown = self._keys.redact(value)
            elif name == "evidence" and isinstance(form, ReasonForm):
                shown = self._evidence(value)
            else:
                shown = self.redact(value)
            if shown is not value:
                changes[name] = shown
        return structs.replace(form, **changes) if changes else form

    def _evidence(self, evidence: dict[str, Any]) -> dict[str, Any]:
        """Redact the message of an error in the evidence of a reason."""
        if "error" not in evidence:
            return evidence
        return {**evidence, "error": self._text(evidence["error"])}

    def _text(self, text: str | None) -> str | None:
        if not text:
            return text
        return redacted(text) if self._sees_payloads else REDACTED

    def _data(self, data: Raw) -> Raw:
        """Redact a user's JSON; that there is none is no secret."""
        if bytes(data) in {b"", _NULL}:
            return data
        if not self._sees_payloads:
            return _RAW_REDACTED
        decoded = msgspec.json.decode(data)
        shown = self._keys.redact(decoded)
        return data if shown is decoded else Raw(msgspec.json.encode(shown))


def refuse_redacted(key: ApiKey, payload: str | None) -> None:
    """Refuse a payload that holds the mark of a value which the caller could not see: it would replace the value."""
    if payload is not None and REDACTED in payload and Action.SECRETS_READ not in key.actions:
        message = f"it contains '{REDACTED}', which stands for a value that this token may not see"
        fix = "leave the payload out to keep it, or use a token with the action 'secrets.read'"
        raise invalid([("payload", f"{message}; {fix}")])


def refuse_hidden_search(request: Request, query: JobQuery) -> None:
    """Refuse a search in what a caller may not see, errors and payloads: matches would tell what they say."""
    actions, secret = request.key.actions, request.context.settings.secret_keys
    if Action.SECRETS_READ in actions:
        return
    for term in (term.term if isinstance(term, NotTerm) else term for term in query.terms):
        if isinstance(term, ErrorTerm) and Action.PAYLOADS_READ not in actions:
            raise _search_refused("messages of errors", "error:", Action.PAYLOADS_READ)
        if isinstance(term, PayloadTerm):
            if Action.PAYLOADS_READ not in actions:
                raise _search_refused("payloads", "payload.", Action.PAYLOADS_READ)
            path = f"payload.{'.'.join(term.path)[:40]}"
            if any(secret.match(name) for name in term.path):
                raise _search_refused("values of secret keys", path, Action.SECRETS_READ)
            # Patterns would tell a password within a text, such as that of an address, letter by letter.
            if not all(pattern.is_exact for pattern in term.patterns):
                raise _search_refused("payloads by patterns", "the star", Action.SECRETS_READ)


def _search_refused(what: str, words: str, action: Action) -> HttpError:
    return HttpError(
        403,
        "forbidden",
        f"this token lacks the action '{action}', which a search in {what} needs",
        fix=f"use a token whose role or actions include '{action}', or leave '{words}' out",
    )

"""How the API says no: one form for every refusal (RFC 9457)."""

from __future__ import annotations

from msgspec import Struct


class FieldError(Struct, kw_only=True):
    """What is wrong with one field."""

    field: str
    message: str


class Problem(Struct, kw_only=True, omit_defaults=True):
    """A refusal: a code for programs, a sentence for people, each wrong field by name, and what to do."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldError] = []
    fix: str = ""

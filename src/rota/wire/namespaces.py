"""Forms of namespaces."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict

from rota.core.namespace import NO_LIMITS, Namespace, NamespaceLimits
from rota.wire.scalars import Moment

_Limit = Annotated[int, Meta(ge=1, le=1_000_000_000)]
NamespaceName = Annotated[str, Meta(min_length=1, max_length=100)]


class NamespaceLimitsForm(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How much the API accepts of all callers of a namespace together; beyond it they are answered 429.

    `jobs_waiting` counts the jobs of all queues that are not running yet, `bytes_in_flight` the bodies of requests that
    are not answered yet. Requests and bytes are counted by each API process.
    """

    jobs_waiting: _Limit | None = None
    requests_per_second: _Limit | None = None
    bytes_in_flight: _Limit | None = None


class NamespaceRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A namespace to create."""

    name: NamespaceName
    limits: NamespaceLimitsForm | None = None


class NamespaceForm(Struct, kw_only=True):
    """A namespace and its limits."""

    name: str
    created_at: Moment
    limits: NamespaceLimitsForm


class NamespaceList(Struct, kw_only=True):
    """All namespaces except the default one, by name."""

    items: list[NamespaceForm]


def namespace_limits_of(form: NamespaceLimitsForm | None) -> NamespaceLimits:
    return NO_LIMITS if form is None else NamespaceLimits(**asdict(form))


def namespace_form(namespace: Namespace) -> NamespaceForm:
    limits = NamespaceLimitsForm(**namespace.limits.given)
    return NamespaceForm(name=namespace.name, created_at=namespace.created_at, limits=limits)

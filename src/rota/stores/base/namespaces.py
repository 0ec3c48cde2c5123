"""Namespaces: the other stores of this deployment, listed in the default one. All but name and version is JSON text."""

from __future__ import annotations

import json
from typing import Any, Final

from rota.core.namespace import Namespace, NamespaceLimits
from rota.core.time import from_micros
from rota.stores.base.session import StoreSession
from rota.stores.rows import Row, micros

_TIMES: Final = ("created_at", "deleted_at", "dropped_at")


async def put_namespace(session: StoreSession, namespace: Namespace, now: int) -> bool:  # noqa: ARG001 - as all recorded verbs
    """Write a namespace if its version still holds."""
    name = "create_namespace" if namespace.version == 0 else "replace_namespace"
    return await session.put(name, **_row(namespace))


async def namespaces(session: StoreSession) -> list[Namespace]:
    return [_namespace_of(row) for row in await session.select("all_namespaces")]


def _row(namespace: Namespace) -> dict[str, Any]:
    body: dict[str, Any] = {"limits": dict(namespace.limits.given)}
    body |= {name: micros(getattr(namespace, name)) for name in _TIMES}
    return {"name": namespace.name, "version": namespace.version, "body": json.dumps(body, separators=(",", ":"))}


def _namespace_of(row: Row) -> Namespace:
    name, version, text = row
    body = json.loads(text)
    times: dict[str, Any] = {one: None if body[one] is None else from_micros(body[one]) for one in _TIMES}
    return Namespace(name=name, version=version, limits=NamespaceLimits(**body["limits"]), **times)

"""The namespace of a request: that of its token, or the one that its caller chooses by the header `Rota-Namespace`.

A token of a namespace cannot choose another. A caller of the server's own namespace can if its token has the action
`namespaces.use`, and so can any caller of a server that needs no token. A namespace that a caller may not choose is
answered as one that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rota.api.context import Context
from rota.api.http import Request
from rota.api.settings import ApiKey
from rota.core.access import Action
from rota.core.namespace import DEFAULT
from rota.engine.namespaces import unknown_namespace

#: The header, in ASGI's spelling.
NAMESPACE: Final = b"rota-namespace"


async def namespace_of(key: ApiKey, headers: Mapping[bytes, bytes], server: Context) -> Context:
    """Return the context of the namespace of a request; `server` is that of the server's own."""
    own = server.engine.namespace
    home = own if key.namespace is None else key.namespace
    name, text = home, headers.get(NAMESPACE)
    if text is not None:
        shown = text.decode("latin-1")
        name = "" if shown == DEFAULT else shown
        if name != home and not (home == own and Action.NAMESPACES_USE in key.actions):
            raise unknown_namespace(shown)
    if name == own:
        return server
    if server.namespaces is None:
        raise unknown_namespace(name or DEFAULT)
    return server.namespaces.opened(name) or await server.namespaces.open(name)


def chosen_namespace(request: Request) -> str | None:
    """Return the namespace that a request chose by its header; None without it."""
    return request.engine.namespace if NAMESPACE in request.headers else None

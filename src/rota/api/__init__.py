"""The HTTP API: what Rota's verbs look like from outside.

The room knows HTTP and nothing below the engine: it reads requests, asks the engine, and shows what came of it. Every
route is described once (`routes`), with the scope it asks for, what it takes and what it gives; the router, the check
of scopes and the published description are made of that. `serve` runs it inside an existing asyncio program.
"""

from __future__ import annotations

from rota.api.app import Api, create_app
from rota.api.serving import Timeouts, check_bind, serve
from rota.api.settings import ALL_SCOPES, ApiKey, ApiSettings, Limits, Scope

__all__ = [
    "ALL_SCOPES",
    "Api",
    "ApiKey",
    "ApiSettings",
    "Limits",
    "Scope",
    "Timeouts",
    "check_bind",
    "create_app",
    "serve",
]

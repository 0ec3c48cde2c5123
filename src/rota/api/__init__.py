"""The HTTP API: reads requests, calls the engine, and writes responses.

Each route is described once (`routes`), with its action, input and responses; the router, the check of actions and the
OpenAPI document are made from these descriptions. `serve` runs the API inside an asyncio program.
"""

from __future__ import annotations

from rota.api.app import Api, create_app
from rota.api.server.serve import Protection, Timeouts, check_bind, serve
from rota.api.settings import ApiKey, ApiSettings, Limits

__all__ = [
    "Api",
    "ApiKey",
    "ApiSettings",
    "Limits",
    "Protection",
    "Timeouts",
    "check_bind",
    "create_app",
    "serve",
]

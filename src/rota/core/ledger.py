"""The ledger: who did what, in a chain that shows when it was tampered with; and who may do what."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Final

from rota.core.instant import to_micros
from rota.core.value import value

GENESIS: Final = ""


@value
class Entry:
    """One act of an operator. `digest` binds it to all entries before it."""

    actor: str
    action: str
    target: str
    origin: str = ""
    detail: str = ""
    at: datetime | None = None
    number: int = 0
    digest: str = ""

    def chained(self, number: int, at: datetime, previous: str) -> Entry:
        """Place this entry behind the one whose digest is `previous`."""
        # As JSON, in ASCII: no byte can be moved from one word to the next, and no two texts look alike.
        told = [previous, number, to_micros(at), self.actor, self.action, self.target, self.origin, self.detail]
        return replace(self, number=number, at=at, digest=sha256(json.dumps(told).encode("ascii")).hexdigest())


@value
class Token:
    """A key to the API, of which only a hash is kept."""

    id: str
    name: str
    digest: bytes
    scopes: tuple[str, ...]
    created_at: datetime
    queues: tuple[str, ...] = ()
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

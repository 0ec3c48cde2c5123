"""The ledger: operators' actions in a hash chain, which shows later changes; and API tokens."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Final

from rota.core.time import to_micros
from rota.core.value import value

GENESIS: Final = ""


@value
class LedgerEntry:
    """One action of an operator. `digest` chains it to all entries before."""

    actor: str
    action: str
    target: str
    origin: str = ""
    detail: str = ""
    at: datetime | None = None
    number: int = 0
    digest: str = ""

    def chained(self, number: int, at: datetime, previous: str) -> LedgerEntry:
        """Chain this entry to the one whose digest is `previous`."""
        # As JSON in ASCII: unambiguous, no byte can move from one field to the next.
        content = [previous, number, to_micros(at), self.actor, self.action, self.target, self.origin, self.detail]
        return replace(self, number=number, at=at, digest=sha256(json.dumps(content).encode("ascii")).hexdigest())


@value
class Token:
    """An API token, of which only a hash is stored."""

    id: str
    name: str
    digest: bytes
    scopes: tuple[str, ...]
    created_at: datetime
    queues: tuple[str, ...] = ()
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

"""The ledger: operators' actions in a hash chain, which shows later changes."""

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
    #: What the action came through: `api`, `cli`, `ui` or `sdk`; empty for a program of the server itself.
    surface: str = ""

    def chained(self, number: int, at: datetime, previous: str) -> LedgerEntry:
        """Chain this entry to the one whose digest is `previous`."""
        # As JSON in ASCII: unambiguous, no byte can move from one field to the next.
        content = [previous, number, to_micros(at), self.actor, self.action, self.target, self.origin, self.detail]
        # Entries of earlier releases have no surface, and keep their digest.
        content += [self.surface] if self.surface else []
        return replace(self, number=number, at=at, digest=sha256(json.dumps(content).encode("ascii")).hexdigest())

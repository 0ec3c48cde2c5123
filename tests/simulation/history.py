"""The history of a run: records of what happened, in order.

A record is a plain dictionary: its number, the virtual time in microseconds, its kind, and what belongs to the kind:

=============  ====================================================================================================
`invoke`       a host sent a call: `call`, `host`, `boot`, `verb`, `ask`
`apply`        the store did it: `call`, `copy` (a repeated request is another copy), `verb`, `clock` (the store's),
               `ask`, `got`. This is the store's own order of events; the caller may never hear of it
`ok`           the caller heard the answer: `call`, `host`, `verb`, `got`
`fail`         the caller knows that nothing was done: `call`, `host`, `why`
`unknown`      the caller cannot know: `call`, `host`, `why`. A call without any of the three is unknown as well
`accepted`     a submitter was told that its job is stored: `host`, `job`
`start`, `end` a handler began and ended: `host`, `boot`, `job`, `fence`; at the end `outcome`, and whether it is `deaf`
`boot`, `exit` a process began, or ended by itself; `sigterm`: it was asked to, within `grace` microseconds
`blind`        a host saw the store's clock again, for the first time after several seconds: `host`, `since`
`fault`        a fault began, ended or struck: `fault` (its class), `phase` (begin, end, hit), `target`, `detail`
=============  ====================================================================================================

Everything in it survives JSON, so that a history can be stored, hashed, and checked elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from simulation.clocks import Monotonic

Record = dict[str, Any]


class History:
    """The append-only records of a run."""

    def __init__(self, loop: Monotonic) -> None:
        self._loop = loop
        self._is_open = True
        self.records: list[Record] = []

    def note(self, kind: str, **fields: Any) -> None:  # noqa: ANN401 - whatever survives JSON
        """Append a record; after the end of the run nothing is recorded."""
        if self._is_open:
            record = {"number": len(self.records), "at": round(self._loop.time() * 1e6), "kind": kind, **fields}
            self.records.append(record)

    def close(self) -> None:
        """Record nothing more."""
        self._is_open = False

    def digest(self) -> str:
        """Return the hash of the history."""
        return digest_of(self.records)


def to_line(record: Record) -> str:
    """Write a record as one line of JSON."""
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


def digest_of(records: Iterable[Record]) -> str:
    """Hash records in their order."""
    hasher = blake2b(digest_size=16)
    for record in records:
        hasher.update(to_line(record).encode())
        hasher.update(b"\n")
    return hasher.hexdigest()

"""Kinds of submissions: what all that differ in their payload only have in common is found out once.

A server is mostly handed the same few kinds of jobs, thousands of times. The first of a kind is read, checked and shown
field by field; the next ones take from it what they share, which is all but id, payload and time. Nothing is decided
here: what cannot be known from the request alone is never kept, and what the engine refuses it refuses every time.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

import msgspec

from rota.core.identity import JobId, to_text
from rota.core.instant import EPOCH
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.ports.store import Inserted, Receipt
from rota.wire.jobs import fresh_form
from rota.wire.submission import Submission

#: So many kinds are kept. Where a field differs from job to job, they come and go.
MOST: Final = 1_000

_encode: Final = msgspec.json.Encoder().encode
_BESIDES_PAYLOAD: Final = attrgetter(*(name for name in Submission.__struct_fields__ if name != "payload"))
#: What a job has beyond id, type and payload, in the order of its fields.
_REST: Final = attrgetter(*(field.name for field in fields(NewJob)[3:]))

#: A job that stands for all of its kind while their answer is cut.
_ID: Final = JobId(0)
_MADE: Final = Inserted(_ID, Receipt.CREATED, State.PENDING, EPOCH)
#: Where answers of one kind differ, in the order of the form: up to what, and what stands there while it is cut. Only a
#: name is followed by a colon, and no other thing in the form has names of its own before these.
_HOLES: Final = (
    (b'"id":"', to_text(_ID).encode()),
    (b'"payload":', b"null"),
    *((name, _encode(EPOCH)) for name in (b'"run_at":', b'"created_at":', b'"updated_at":')),
)


class Kind:
    """What the jobs of one kind have in common, and the answer to their submission, with holes."""

    __slots__ = ("_parts", "_rest", "type")

    def __init__(self, job: NewJob) -> None:
        self.type = job.type
        self._rest: tuple[Any, ...] = _REST(job)
        #: Cut when a second one comes: what came once may never come again.
        self._parts: tuple[bytes, ...] | None = None

    def job(self, job_id: JobId, payload: str) -> NewJob:
        """Make another job of this kind."""
        return NewJob(job_id, self.type, payload, *self._rest)

    def shown(self, id_text: str, payload: str, at: datetime) -> bytes:
        """Show a job of this kind that was made at a time and is pending, as JSON; what `fresh_form` is written as."""
        if self._parts is None:
            self._parts = self._cut()
        start, to_payload, to_run_at, to_created_at, to_updated_at, end = self._parts
        moment = _encode(at)
        return b"".join(
            (
                start, id_text.encode(), to_payload, payload.encode(),
                to_run_at, moment, to_created_at, moment, to_updated_at, moment, end,
            )
        )  # fmt: skip

    def _cut(self) -> tuple[bytes, ...]:
        """Write an answer like all others of this kind, and cut out where they differ."""
        text = _encode(fresh_form(self.job(_ID, "null"), _MADE, []))
        parts = []
        for name, stood in _HOLES:
            before, _, text = text.partition(name + stood)
            parts.append(before + name)
        return (*parts, text)


class Kinds:
    """The kinds of submissions that came lately."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Kind] = {}

    def find(self, submission: Submission) -> Kind | None:
        """Give the kind of a submission, if one of it came before."""
        try:
            return self._known.get(_BESIDES_PAYLOAD(submission))
        except TypeError:
            # It holds a list, or a rule of its own: each such submission is looked at by itself.
            return None

    def learn(self, submission: Submission, job: NewJob) -> None:
        """Keep what a submission was found to mean, unless that depends on when or by whom it is handed in."""
        if job.run_at is not None or job.expires_at is not None or job.idempotency is not None:
            return
        if len(self._known) >= MOST:
            self._known.clear()
        try:
            self._known[_BESIDES_PAYLOAD(submission)] = Kind(job)
        except TypeError:
            return

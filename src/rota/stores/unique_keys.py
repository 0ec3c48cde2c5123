"""Answers to repeated submissions of unique, throttled and debounced jobs: what all stores derive alike."""

from __future__ import annotations

from typing import Final

from rota.core.submission import NewJob
from rota.core.time import span_to_micros, to_micros
from rota.core.unique_keys import KeyHolder, UniqueKey, UniqueKind, debounced_time
from rota.ports.store import Receipt

_RECEIPTS: Final = {
    UniqueKind.UNIQUE: Receipt.UNIQUE_CONFLICT,
    UniqueKind.THROTTLE: Receipt.THROTTLED,
    UniqueKind.DEBOUNCE: Receipt.DEBOUNCED,
}


def receipt_of(job: NewJob, key: UniqueKey, holder: KeyHolder) -> Receipt:
    """Return the receipt of a submission that is answered with an earlier job.

    If that job has the id of the new one, the submission itself was repeated because its answer was lost.
    """
    return Receipt.REPLAYED if holder.job_id == job.id else _RECEIPTS[key.kind]


def replaced_times(job: NewJob, key: UniqueKey, holder: KeyHolder) -> tuple[int, int | None]:
    """Return the new time of a debounced job that waits, and the time at which it expires, in microseconds."""
    assert job.run_at is not None, "a debounced job has a time"
    moment = debounced_time(key, job.run_at, holder)
    expires = None if job.expires_at is None else to_micros(moment) + span_to_micros(job.expires_at - job.run_at)
    return to_micros(moment), expires

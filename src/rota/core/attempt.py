"""One run of a job under one lease, as it is remembered."""

from __future__ import annotations

from datetime import datetime

from rota.core.identity import JobId
from rota.core.lifecycle import Event
from rota.core.settlement import JobError
from rota.core.value import value


@value
class Attempt:
    """An attempt, named by the fence it ran under. `event` is how it ended; None while it runs."""

    job_id: JobId
    fence: int
    worker: str
    boot: str
    started_at: datetime
    ended_at: datetime | None = None
    event: Event | None = None
    error: JobError | None = None
    progress: str | None = None
    log_tail: str | None = None

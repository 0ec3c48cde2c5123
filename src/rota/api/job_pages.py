"""Pages of jobs, limited by their number and by their bytes.

A payload may have a megabyte, so a page of 500 jobs could have half a gigabyte. Jobs are read in batches: a small one
first, then as many as the size of the jobs read so far allows. A page ends before it exceeds `PAGE_BYTES`, but holds
at least one job, and its cursor continues the list. `payload` and `result` are included only on request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final

from msgspec import UNSET

from rota.api.aliases import choices_of
from rota.api.cursors import cursor_at
from rota.api.errors import invalid
from rota.core.ids import JobId
from rota.core.job import Job
from rota.engine import Engine
from rota.ports.store import JobQuery, Position
from rota.wire.jobs import JobForm, job_form

#: The most bytes of jobs in one response.
PAGE_BYTES: Final = 8_388_608
#: The size of the first batch, before the size of the jobs is known, and of the largest.
_FIRST: Final = 20
_MOST: Final = 500
#: About how many bytes a job has without its texts.
_FRAME_BYTES: Final = 700
#: Fields that lists leave out unless requested.
HEAVY_FIELDS: Final = ("payload", "result")


def fields_of(text: str | None) -> frozenset[str]:
    """Parse `fields`: which of the fields that lists leave out are requested."""
    return frozenset() if text is None else frozenset(choices_of(text, HEAVY_FIELDS, "fields"))


async def job_batches(engine: Engine, query: JobQuery) -> AsyncIterator[Sequence[Job]]:
    """Give all jobs of a query, in batches up to its limit and of about `PAGE_BYTES` at most."""
    most, size = query.limit, _FIRST
    while True:
        batch = await engine.jobs.find_some(replace(query, limit=min(size, most)))
        if batch.jobs:
            yield batch.jobs
            size = _next_size(batch.jobs)
        if batch.resume is None:
            return
        query = query.behind(batch.resume)


async def job_page(
    engine: Engine, query: JobQuery, kind: str, fields: frozenset[str]
) -> tuple[list[JobForm], str | None]:
    """Give a page and the cursor of the next one. The query's limit is one more than the page's.

    A page that is shorter than its limit and has a cursor is partial: the store stopped after many candidates.
    """
    forms: list[JobForm] = []
    total, size, limit = 0, _FIRST, query.limit
    position: Position | None = None
    while True:
        batch_size = min(size, limit - len(forms))
        batch = await engine.jobs.find_some(replace(query, limit=batch_size))
        for job in batch.jobs:
            total += approximate_bytes(job, fields)
            if position is not None and (len(forms) >= limit - 1 or total > PAGE_BYTES):
                return forms, cursor_at(kind, position)
            forms.append(strip_heavy_fields(job_form(job), fields))
            position = query.position_of(job)
        if batch.resume is None:
            return forms, None
        if len(batch.jobs) < batch_size:
            # The store stopped after many candidates: the next request continues there.
            return forms, cursor_at(kind, batch.resume)
        query, size = query.behind(batch.resume), _next_size(batch.jobs)


def _next_size(jobs: Sequence[Job]) -> int:
    """Give how many jobs of this size make a batch."""
    return min(max(PAGE_BYTES * len(jobs) // sum(map(approximate_bytes, jobs)), 1), _MOST)


async def jobs_by_id(engine: Engine, ids: Sequence[JobId], fields: frozenset[str]) -> list[Job]:
    """Give jobs by id, unless they are too large together for one response."""
    jobs: list[Job] = []
    total = 0
    for start in range(0, len(ids), _FIRST):
        for job in await engine.get(ids[start : start + _FIRST]):
            total += approximate_bytes(job, fields)
            if total > PAGE_BYTES:
                message = f"these jobs have more than {PAGE_BYTES} bytes together; ask for fewer, or without 'fields'"
                raise invalid([("ids", message)])
            jobs.append(job)
    return jobs


def count_that_fit(jobs: Sequence[Job]) -> int:
    """Count how many of the jobs fit into one response; at least one."""
    total = 0
    for number, job in enumerate(jobs):
        total += approximate_bytes(job)
        if total > PAGE_BYTES and number:
            return number
    return len(jobs)


def strip_heavy_fields(form: JobForm, fields: frozenset[str]) -> JobForm:
    """Remove the fields that were not requested."""
    if "payload" not in fields:
        form.payload = UNSET
    if "result" not in fields:
        form.result = UNSET
    return form


def approximate_bytes(job: Job, fields: frozenset[str] = frozenset(HEAVY_FIELDS)) -> int:
    """Estimate the bytes of a job in a response."""
    texts = [job.payload if "payload" in fields else "", (job.result or "") if "result" in fields else ""]
    if job.error is not None:
        texts += [job.error.message, job.error.traceback]
    return _FRAME_BYTES + sum(len(text) if text.isascii() else len(text.encode()) for text in texts)

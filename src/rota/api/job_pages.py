"""Pages of jobs, limited by their number and by their bytes.

A payload may have a megabyte, so a page of 500 jobs could have half a gigabyte. Jobs are read in batches: a small one
first, then as many as the size of the jobs read so far allows, but never many, since the next ones may be the largest.
A page ends before it exceeds `PAGE_BYTES`, but holds at least one job, and its cursor continues the list. `payload` and
`result` are included only on request; pages with them are made a few at a time (`Context.large_pages`), or many callers
at once would each have eight megabytes under way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Final

from msgspec import UNSET

from rota.api.aliases import choices_of
from rota.api.context import Context
from rota.api.cursors import cursor_at
from rota.api.errors import invalid
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.submission import Template
from rota.engine import Engine
from rota.ports.store import JobQuery, Position
from rota.wire.jobs import JobForm, job_form

#: The most bytes of jobs in one response.
PAGE_BYTES: Final = 8_388_608
#: The bytes of a batch of an export: each one is kept until a slow caller has taken it.
EXPORT_BYTES: Final = 524_288
#: The size of the first batch with payloads, before their size is known, and of the largest batch: a page of a hundred
#: jobs, and one to see whether there are more, takes two without payloads.
_FIRST: Final = 20
_MOST: Final = 51
#: About how many bytes a job has without its texts.
_FRAME_BYTES: Final = 700
#: Fields that lists leave out unless requested.
HEAVY_FIELDS: Final = ("payload", "result")


def fields_of(text: str | None) -> frozenset[str]:
    """Parse `fields`: which of the fields that lists leave out are requested."""
    return frozenset() if text is None else frozenset(choices_of(text, HEAVY_FIELDS, "fields"))


async def job_batches(engine: Engine, query: JobQuery) -> AsyncIterator[Sequence[Job]]:
    """Return all jobs of a query, in batches up to its limit and of about `EXPORT_BYTES` at most."""
    most, size = query.limit, 1
    while True:
        batch = await engine.jobs.find_some(replace(query, limit=min(size, most)))
        if batch.jobs:
            yield batch.jobs
            size = _next_size(batch.jobs, EXPORT_BYTES)
        if batch.resume is None:
            return
        query = query.behind(batch.resume)


async def job_page(
    context: Context, query: JobQuery, kind: str, fields: frozenset[str]
) -> tuple[list[JobForm], str | None]:
    """Return a page and the cursor of the next one. The query's limit is one more than the page's.

    A page that is shorter than its limit and has a cursor is partial: the store stopped after many candidates.
    """
    if not fields:
        return await _job_page(context.engine, replace(query, is_light=True), kind, fields)
    async with context.large_pages:
        return await _job_page(context.engine, query, kind, fields)


async def _job_page(
    engine: Engine, query: JobQuery, kind: str, fields: frozenset[str]
) -> tuple[list[JobForm], str | None]:
    forms: list[JobForm] = []
    total, size, limit = 0, _MOST if query.is_light else _FIRST, query.limit
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
        query, size = query.behind(batch.resume), _next_size(batch.jobs, PAGE_BYTES)


def _next_size(jobs: Sequence[Job], most_bytes: int) -> int:
    """Return how many jobs of this size make a batch."""
    return min(max(most_bytes * len(jobs) // sum(map(approximate_bytes, jobs)), 1), _MOST)


async def jobs_by_id(context: Context, ids: Sequence[JobId], fields: frozenset[str]) -> list[Job]:
    """Return jobs by id, unless they are too large together for one response."""
    async with context.large_pages if fields else nullcontext():
        return await _jobs_by_id(context.engine, ids, fields)


async def _jobs_by_id(engine: Engine, ids: Sequence[JobId], fields: frozenset[str]) -> list[Job]:
    jobs: list[Job] = []
    total = 0
    for start in range(0, len(ids), _FIRST):
        for job in await engine.get(ids[start : start + _FIRST]):
            total += approximate_bytes(job, fields)
            if total > PAGE_BYTES:
                message = f"these jobs have more than {PAGE_BYTES} bytes together; ask for fewer, or without 'fields'"
                raise invalid([("ids", message)])
            # All of them are kept until the last is read.
            payload, result = ("payload" in fields, "result" in fields)
            jobs.append(replace(job, payload=job.payload if payload else "null", result=job.result if result else None))
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
    texts += (*job.meta.values(), *_follow_up_texts(job))
    return _FRAME_BYTES + sum(len(text) if text.isascii() else len(text.encode()) for text in texts)


def template_bytes(template: Template) -> int:
    """Estimate the bytes of a job that is to be made later in a response."""
    texts = [template.payload, *template.meta.values(), *_follow_up_texts(template)]
    return _FRAME_BYTES + sum(len(text) if text.isascii() else len(text.encode()) for text in texts)


def _follow_up_texts(job: Job | Template) -> Iterator[str]:
    """Return the payloads and the meta of follow-ups, which are shown in full."""
    for one in (job.on_success, job.on_failure):
        if one is not None:
            yield one.payload
            yield from one.meta.values()
            yield from _follow_up_texts(one)

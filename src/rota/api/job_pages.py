"""Pages of jobs, cut by their number and by their bytes.

A payload may have a megabyte, so a page of 500 jobs could have half a gigabyte. Jobs are read in portions: a small one
first, the next ones as large as the size of what was read allows. A page ends before it exceeds `PAGE_BYTES`, but holds
one job at least, and its cursor leads on. `payload` and `result` are shown only where they are asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final

from msgspec import UNSET

from rota.api.aliases import words_of
from rota.api.cursors import cursor_at
from rota.api.errors import invalid
from rota.core.identity import JobId
from rota.core.job import Job
from rota.engine import Engine
from rota.ports.store import JobQuery, Position
from rota.wire.jobs import JobForm, form_of

#: The most bytes of jobs in one answer.
PAGE_BYTES: Final = 8_388_608
#: So many jobs are read before it is known how large they are.
_FIRST: Final = 20
_MOST: Final = 500
#: What a job takes beside its texts, roughly.
_FRAME_BYTES: Final = 700
#: What is left out of a list unless it is asked for.
HEAVY: Final = ("payload", "result")


def fields_of(text: str | None) -> frozenset[str]:
    """Read which of the fields that are left out of lists are asked for."""
    return frozenset() if text is None else frozenset(words_of(text, HEAVY, "fields"))


async def portions(engine: Engine, query: JobQuery) -> AsyncIterator[Sequence[Job]]:
    """Give all jobs that a query asks for, in portions up to its limit and of about `PAGE_BYTES` at most."""
    most, size = query.limit, _FIRST
    while True:
        found = await engine.jobs.find_some(replace(query, limit=min(size, most)))
        if found.jobs:
            yield found.jobs
            size = _next_size(found.jobs)
        if found.resume is None:
            return
        query = query.behind(found.resume)


async def page_of(
    engine: Engine, query: JobQuery, kind: str, fields: frozenset[str]
) -> tuple[list[JobForm], str | None]:
    """Give a page of a list and the cursor of the next one. The query's limit is one more than the page's."""
    forms: list[JobForm] = []
    total, size, limit = 0, _FIRST, query.limit
    position: Position | None = None
    while True:
        asked = min(size, limit - len(forms))
        found = await engine.jobs.find_some(replace(query, limit=asked))
        for job in found.jobs:
            total += weight(job, fields)
            if position is not None and (len(forms) >= limit - 1 or total > PAGE_BYTES):
                return forms, cursor_at(kind, position)
            forms.append(brief(form_of(job), fields))
            position = query.position_of(job)
        if found.resume is None:
            return forms, None
        if len(found.jobs) < asked:
            # So many candidates were looked at that the next request shall look at the others.
            return forms, cursor_at(kind, found.resume)
        query, size = query.behind(found.resume), _next_size(found.jobs)


def _next_size(jobs: Sequence[Job]) -> int:
    """Say how many jobs of such a size make a portion."""
    return min(max(PAGE_BYTES * len(jobs) // sum(map(weight, jobs)), 1), _MOST)


async def chosen(engine: Engine, ids: Sequence[JobId], fields: frozenset[str]) -> list[Job]:
    """Give jobs by their ids, unless they are too large together for one answer."""
    jobs: list[Job] = []
    total = 0
    for start in range(0, len(ids), _FIRST):
        for job in await engine.get(ids[start : start + _FIRST]):
            total += weight(job, fields)
            if total > PAGE_BYTES:
                message = f"these jobs have more than {PAGE_BYTES} bytes together; ask for fewer, or without 'fields'"
                raise invalid([("ids", message)])
            jobs.append(job)
    return jobs


def within_bytes(jobs: Sequence[Job]) -> int:
    """Say how many of some jobs fit into one answer; one at least."""
    total = 0
    for number, job in enumerate(jobs):
        total += weight(job)
        if total > PAGE_BYTES and number:
            return number
    return len(jobs)


def brief(form: JobForm, fields: frozenset[str]) -> JobForm:
    """Leave out what was not asked for."""
    if "payload" not in fields:
        form.payload = UNSET
    if "result" not in fields:
        form.result = UNSET
    return form


def weight(job: Job, fields: frozenset[str] = frozenset(HEAVY)) -> int:
    """Say about how many bytes a job has as it is shown."""
    texts = [job.payload if "payload" in fields else "", (job.result or "") if "result" in fields else ""]
    if job.error is not None:
        texts += [job.error.message, job.error.traceback]
    return _FRAME_BYTES + sum(len(text) if text.isascii() else len(text.encode()) for text in texts)

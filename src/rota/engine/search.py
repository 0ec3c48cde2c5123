"""Search of jobs with the query language: make the store's query, count the matches, suggest values."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from rota.core.cluster import ALIVE_FOR, Role
from rota.core.errors import InvalidRequest, JobNotFound
from rota.core.ids import ScheduleId, to_number
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.search.parser import STATUS_WORDS, Search, parse_search
from rota.core.time import EPOCH
from rota.core.value import value
from rota.engine.deps import EngineDeps
from rota.ports.store import JobQuery

#: Up to this many matches are counted exactly.
MOST_COUNTED: Final = 10_000
#: How long a count takes at most.
COUNT_SECONDS: Final = 2.0
#: How many jobs are read at a time for a count.
_COUNT_BATCH: Final = 100
#: Values are suggested from this many of the latest jobs.
_RECENT: Final = 300
#: Fields that a search and a store's query have in common.
_SHARED: Final = ("states", "types", "queues", "tag", "worker", "fingerprint", "created_from", "created_until", "terms")


@value
class MatchCount:
    """How many jobs match. Exact if `is_exact`, otherwise a lower bound."""

    count: int
    is_exact: bool


class JobSearch:
    """Search of jobs: query, count, suggestions."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def query(
        self, text: str, now: datetime, *, status_words: Mapping[str, tuple[State, ...]] = STATUS_WORDS
    ) -> JobQuery:
        """Make the store's query of a search; ages count back from `now`."""
        search = parse_search(text, now, status_words=status_words)
        query = JobQuery(**{name: getattr(search, name) for name in _SHARED})
        if search.is_empty:
            # No job has contradictory states, and none was created before 1970.
            return JobQuery(created_until=EPOCH)
        if search.schedule is not None:
            query = replace(query, schedule_id=await self._schedule_id(search.schedule))
        return await self._with_id(query, search)

    async def _with_id(self, query: JobQuery, search: Search) -> JobQuery:
        """Read a single job if a word is its whole id; otherwise the word may be the beginning of a type."""
        if search.job_id is None or not await self._deps.store.get([search.job_id]):
            return query
        return replace(query, ids=(search.job_id,))

    async def _schedule_id(self, text: str) -> ScheduleId:
        schedules = await self._deps.store.schedules(names=[text])
        if schedules:
            return schedules[0].id
        try:
            return ScheduleId(to_number(text))
        except JobNotFound:
            problem = f"q: schedule: {text[:80]!r} is neither the name nor the id of a schedule"
            raise InvalidRequest(f"{problem}; `rota schedules list` shows them", field="q") from None

    async def count(self, query: JobQuery, *, most: int = MOST_COUNTED, seconds: float = COUNT_SECONDS) -> MatchCount:
        """Count the matches, at most `most` and only as far as the time allows."""
        give_up_at = time.monotonic() + seconds
        count = 0
        # The store counts; jobs are read only where terms have to be evaluated on them.
        if query.terms:
            query = replace(query, limit=_COUNT_BATCH, is_light=True)
        else:
            query = replace(query, limit=most + 1, is_count=True)
        while True:
            page = await self._deps.store.find_some(query)
            count += len(page.jobs) + page.count
            if page.resume is None:
                return MatchCount(count, is_exact=True) if count <= most else MatchCount(most, is_exact=False)
            if count > most or time.monotonic() > give_up_at:
                return MatchCount(min(count, most), is_exact=False)
            query = query.behind(page.resume)

    async def suggest(self, field: str, prefix: str, limit: int) -> list[str]:
        """Suggest values of a field that begin with a prefix: from the settings, the cluster and the latest jobs."""
        known = dict.fromkeys(await self._values(field))
        folded = prefix.casefold()
        return sorted(text for text in known if text.casefold().startswith(folded))[:limit]

    async def _values(self, field: str) -> Iterable[str]:
        store = self._deps.store
        if field == "status":
            return STATUS_WORDS
        if field == "schedule":
            return [one.name for one in await store.schedules()]
        recent = await self._recent()
        if field == "queue":
            named = [one.name for one in await store.queues()]
            return [*named, *(job.queue for job in recent)]
        if field == "worker":
            since = await store.time() - ALIVE_FOR
            live = await store.members(role=Role.WORKER, since=since)
            return [*(one.name for one in live), *(job.worker for job in recent if job.worker)]
        return _in_jobs(field, recent)

    async def _recent(self) -> list[Job]:
        query, jobs = JobQuery(limit=_COUNT_BATCH, is_light=True), list[Job]()
        while len(jobs) < _RECENT:
            page = await self._deps.store.find_some(query)
            jobs += page.jobs
            if page.resume is None:
                break
            query = query.behind(page.resume)
        return jobs


def _in_jobs(field: str, jobs: Iterable[Job]) -> Iterable[str]:
    match field:
        case "type":
            return (job.type for job in jobs)
        case "tag":
            return (tag for job in jobs for tag in job.tags)
        case "error":
            return (job.error.kind for job in jobs if job.error is not None)
        case "fingerprint":
            return (job.error.fingerprint(job.type) for job in jobs if job.error is not None)
        case _:
            return ()


#: Fields that have values to suggest.
SUGGESTED: Final = ("status", "type", "queue", "tag", "worker", "schedule", "error", "fingerprint")

"""Terms of a search: conditions on one job that are evaluated in Python, on every store alike.

A store has indexes for some conditions (state, type, queue, tag, worker, schedule, cause, time of creation). The
others are terms: they are evaluated on the rows that the store has read, so a search with terms is bounded by what may
be read for one answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from operator import eq, ge, gt, le, lt
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from rota.core.ids import ScheduleId, to_text
from rota.core.job import Job
from rota.core.value import value

COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {">=": ge, "<=": le, ">": gt, "<": lt, "=": eq}
)


@value
class NamePattern:
    """A name, in which a star stands for any characters unless the name was quoted."""

    text: str
    is_exact: bool = True

    def matches(self, name: str) -> bool:
        """Whether a name is meant. Takes time linear in the name for each part between two stars."""
        if self.is_exact:
            return name == self.text
        first, *middle, last = self.text.split("*")
        if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
            return False
        start, end = len(first), len(name) - len(last)
        for part in middle:
            found = name.find(part, start, end)
            if found < 0:
                return False
            start = found + len(part)
        return True


@value
class NameTerm:
    """The type, queue, worker, a tag or the cause is one of these names."""

    field: str
    patterns: tuple[NamePattern, ...]

    def matches(self, job: Job) -> bool:
        return any(pattern.matches(name) for name in _NAMES[self.field](job) for pattern in self.patterns)


@value
class NumberTerm:
    """A number of the job lies in a range: attempts, priority."""

    field: str
    comparison: str
    number: int

    def matches(self, job: Job) -> bool:
        return COMPARISONS[self.comparison](getattr(job, self.field), self.number)


@value
class TimeTerm:
    """The creation or the end of the job is before or after a moment. A job that has not ended has no end."""

    field: str
    comparison: str
    moment: datetime

    def matches(self, job: Job) -> bool:
        at = getattr(job, self.field)
        return at is not None and COMPARISONS[self.comparison](at, self.moment)


@value
class ErrorTerm:
    """Kind or message of the error contains a text, in any case."""

    text: str

    def matches(self, job: Job) -> bool:
        return job.error is not None and self.text in f"{job.error.kind}: {job.error.message}".casefold()


@value
class ScheduleTerm:
    """The job was made by a schedule."""

    schedule_id: ScheduleId

    def matches(self, job: Job) -> bool:
        return job.schedule_id == self.schedule_id


@value
class WordTerm:
    """A bare word: the beginning of the job's id or of its type."""

    word: str

    def matches(self, job: Job) -> bool:
        return job.type.startswith(self.word) or to_text(job.id).startswith(self.word.lower())


@value
class LateTerm:
    """The job started later than it was due, by more or less than a time; one that is due and waits is late by now."""

    comparison: str
    late: timedelta
    now: datetime

    def matches(self, job: Job) -> bool:
        end = job.started_at or job.finished_at or self.now
        return end > job.run_at and COMPARISONS[self.comparison](end - job.run_at, self.late)


@value
class PayloadTerm:
    """A text, number, boolean or null at a path of keys, or of places in arrays, of the payload is one of these."""

    path: tuple[str, ...]
    patterns: tuple[NamePattern, ...]

    def matches(self, job: Job) -> bool:
        try:
            content = json.loads(job.payload, parse_int=str, parse_float=str)
        except ValueError:
            return False
        for key in self.path:
            if isinstance(content, dict) and key in content:
                content = content[key]
            elif isinstance(content, list) and key.isdecimal() and int(key[:9]) < len(content):
                content = content[int(key[:9])]
            else:
                return False
        if isinstance(content, dict | list):
            return False
        text = content if isinstance(content, str) else json.dumps(content)
        return any(pattern.matches(text) for pattern in self.patterns)


@value
class NotTerm:
    """The negation of a term."""

    term: Term

    def matches(self, job: Job) -> bool:
        return not self.term.matches(job)


Term: TypeAlias = (
    NameTerm | NumberTerm | TimeTerm | ErrorTerm | ScheduleTerm | WordTerm | LateTerm | PayloadTerm | NotTerm
)


def _fingerprint(job: Job) -> tuple[str, ...]:
    return () if job.error is None else (job.error.fingerprint(job.type),)


_NAMES: Final[Mapping[str, Callable[[Job], tuple[str, ...]]]] = MappingProxyType(
    {
        "type": lambda job: (job.type,),
        "queue": lambda job: (job.queue,),
        "tag": lambda job: job.tags,
        "worker": lambda job: () if job.worker is None else (job.worker,),
        "fingerprint": _fingerprint,
        "id": lambda job: (to_text(job.id),),
    }
)

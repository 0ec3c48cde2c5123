"""Bulk submissions: jobs of one task that differ in id and payload only, stored as one model and two lists.

Nearly all large submissions are of this form. Single jobs are made only when they are read, so checking and storing a
thousand of them seldom makes any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import repeat
from operator import attrgetter, contains, itemgetter
from typing import Any, Final, final, overload

from rota.core.ids import JobId
from rota.core.submission import NewJob, check

_NAMES: Final = [one.name for one in fields(NewJob)]
#: All fields of a new job except id and payload; and those of them that follow the payload.
_SHARED: Final = attrgetter(*(name for name in _NAMES if name not in {"id", "payload"}))
_REST: Final = attrgetter(*_NAMES[_NAMES.index("payload") + 1 :])
_job_id: Final = attrgetter("id")
_payload: Final = attrgetter("payload")


@final
class UniformJobs(Sequence[NewJob]):
    """Jobs that equal a model except for id and payload. The id and payload of the model are not used."""

    __slots__ = ("ids", "model", "payloads")

    def __init__(self, model: NewJob, ids: Sequence[JobId], payloads: Sequence[str]) -> None:
        self.model = model
        self.ids = ids
        self.payloads = payloads

    def matches(self, job: NewJob) -> bool:
        """Whether another job differs from these in id and payload only."""
        return bool(_SHARED(self.model) == _SHARED(job))

    def sorted_by_id(self) -> UniformJobs:
        ids = sorted(self.ids)
        # Ids are made one after the other, so nearly always they are sorted.
        if ids == list(self.ids):
            return self
        pairs = sorted(zip(self.ids, self.payloads, strict=True), key=itemgetter(0))
        return UniformJobs(self.model, ids, [payload for _, payload in pairs])

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[NewJob]:
        return map(NewJob, self.ids, repeat(self.model.type), self.payloads, *map(repeat, _REST(self.model)))

    @overload
    def __getitem__(self, place: int) -> NewJob: ...
    @overload
    def __getitem__(self, place: slice) -> UniformJobs: ...
    def __getitem__(self, place: int | slice) -> NewJob | UniformJobs:
        ids: Any = self.ids[place]
        payload: Any = self.payloads[place]
        if isinstance(place, slice):
            return UniformJobs(self.model, ids, payload)
        return NewJob(ids, self.model.type, payload, *_REST(self.model))


def as_uniform(jobs: Sequence[NewJob]) -> UniformJobs | None:
    """Return jobs as `UniformJobs`; None if they differ in more than id and payload, or if there are none."""
    if type(jobs) is UniformJobs:
        return jobs
    shared = list(map(_SHARED, jobs))
    if not shared or shared.count(shared[0]) != len(shared):
        return None
    return UniformJobs(jobs[0], list(map(_job_id, jobs)), list(map(_payload, jobs)))


def representatives(jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """Return jobs that represent a batch in all fields but id and payload: one, if the batch is uniform."""
    # Compared by type: `isinstance` with an abstract class costs as much as all else here.
    return (jobs.model,) if type(jobs) is UniformJobs else jobs


def parents_of(jobs: Sequence[NewJob]) -> set[JobId]:
    """Return the ids of the jobs that these wait for, except those in the batch."""
    parents = {parent.on for job in representatives(jobs) for parent in job.after}
    return parents - {job.id for job in jobs} if parents else parents


def check_all(jobs: Sequence[NewJob]) -> None:
    """Check a batch: refuse it if one job could not be stored or run, as `check` does."""
    if len(jobs) == 1:
        check(jobs[0])
        return
    # If one job of a uniform batch is valid, all are, unless a payload has to be checked by itself.
    if type(jobs) is UniformJobs and not _are_suspicious(jobs.payloads):
        jobs = jobs[:1]
    for job in jobs:
        check(job)


def _are_suspicious(payloads: Sequence[str]) -> bool:
    """Whether a payload may be refused. Few calls into C, since nearly all pass."""
    return not all(map(str.isascii, payloads)) or any(map(contains, payloads, repeat("\0")))

"""Jobs that are alike: those of one task that are submitted together, as nearly all are.

They differ in id and payload only. What they have in common is said once, by one of them, and each is made where
somebody asks for it: whoever checks or stores a thousand of them seldom has to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import repeat
from operator import attrgetter, contains, itemgetter
from typing import Any, Final, final, overload

from rota.core.identity import JobId
from rota.core.submission import NewJob, check

_NAMES: Final = [one.name for one in fields(NewJob)]
#: All that a submission is besides its id and its payload; and what of that follows the payload.
_BESIDES: Final = attrgetter(*(name for name in _NAMES if name not in {"id", "payload"}))
_REST: Final = attrgetter(*_NAMES[_NAMES.index("payload") + 1 :])
_job_id: Final = attrgetter("id")
_payload: Final = attrgetter("payload")


@final
class Alike(Sequence[NewJob]):
    """Jobs that are as the model is, each with an id and a payload of its own. The model's do not count."""

    __slots__ = ("ids", "model", "payloads")

    def __init__(self, model: NewJob, ids: Sequence[JobId], payloads: Sequence[str]) -> None:
        self.model = model
        self.ids = ids
        self.payloads = payloads

    def is_like(self, job: NewJob) -> bool:
        """Whether another job differs from these in nothing but id and payload."""
        return bool(_BESIDES(self.model) == _BESIDES(job))

    def in_order(self) -> Alike:
        """Give the same jobs in the order of their ids."""
        ids = sorted(self.ids)
        # They are made one after the other, so nearly always they are in order.
        if ids == list(self.ids):
            return self
        pairs = sorted(zip(self.ids, self.payloads, strict=True), key=itemgetter(0))
        return Alike(self.model, ids, [payload for _, payload in pairs])

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[NewJob]:
        return map(NewJob, self.ids, repeat(self.model.type), self.payloads, *map(repeat, _REST(self.model)))

    @overload
    def __getitem__(self, place: int) -> NewJob: ...
    @overload
    def __getitem__(self, place: slice) -> Alike: ...
    def __getitem__(self, place: int | slice) -> NewJob | Alike:
        ids: Any = self.ids[place]
        payload: Any = self.payloads[place]
        if isinstance(place, slice):
            return Alike(self.model, ids, payload)
        return NewJob(ids, self.model.type, payload, *_REST(self.model))


def alike_of(jobs: Sequence[NewJob]) -> Alike | None:
    """Give jobs as jobs that are alike; None if they are not, or if there are none."""
    if type(jobs) is Alike:
        return jobs
    besides = list(map(_BESIDES, jobs))
    if not besides or besides.count(besides[0]) != len(besides):
        return None
    return Alike(jobs[0], list(map(_job_id, jobs)), list(map(_payload, jobs)))


def kinds_of(jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """Give jobs that stand for all of some, whatever is asked of them but id and payload: one, if they are alike."""
    # By its very type: to ask whether a list is a kind of sequence takes Python as long as all else here.
    return (jobs.model,) if type(jobs) is Alike else jobs


def parents_of(jobs: Sequence[NewJob]) -> set[JobId]:
    """Give the ids of the jobs that these wait for, but for those among them."""
    parents = {parent.on for job in kinds_of(jobs) for parent in job.after}
    return parents - {job.id for job in jobs} if parents else parents


def check_all(jobs: Sequence[NewJob]) -> None:
    """Refuse jobs of which one could not be kept or run, as `check` does."""
    if len(jobs) == 1:
        check(jobs[0])
        return
    # Of those that are alike, all will do if one does, unless a payload needs a closer look.
    if type(jobs) is Alike and not _are_suspicious(jobs.payloads):
        jobs = jobs[:1]
    for job in jobs:
        check(job)


def _are_suspicious(payloads: Sequence[str]) -> bool:
    """Whether one of some payloads may be refused. By few calls of C: nearly never, one is."""
    return not all(map(str.isascii, payloads)) or any(map(contains, payloads, repeat("\0")))

"""Lease cache: the leases that this store has given, so that a settlement need not read them.

Nearly every job is settled by the process that claimed it, under the lease it was given. The columns that a completion
copies from the lease are then known. It is enough that the lease still exists under its fence without a request to
cancel, which the row count of its DELETE shows. So a batch of completions is one script with the commit instead of
three queries.

The cache may be wrong: a lease was lost, or another job depends on the job. Then the script fails without effect, the
settlements are applied the usual way, and the cache is suspended for a moment. A job that is waited for seldom comes
alone, and finding that out each time would cost more than the cache saves.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final

from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.settlement import Settlement
from rota.core.time import to_micros
from rota.stores.rows import Row

#: The most leases kept; the oldest are dropped first.
MAX_LEASES: Final = 65_536
#: How long the cache is not used after it was wrong.
SUSPENDED_SECONDS: Final = 1.0
#: With more groups of equal completions than this, the cache is not worth it.
_MAX_GROUPS: Final = 4
_JOB_OF_PAIR: Final = itemgetter(1)

#: Jobs by what their completions have in common: result, fence, request to cancel, worker, boot and start.
EqualCompletions = dict[Row, list[JobId]]


class LeaseCache:
    """Leases by job. A lease is dropped when its job is settled."""

    def __init__(self) -> None:
        self._leases: dict[JobId, Row] = {}
        #: The concurrency keys of those jobs that have one.
        self._keys: dict[JobId, str] = {}
        self._suspended_until = float("-inf")

    def add(self, jobs: Sequence[Job]) -> None:
        """Add the leases of jobs once the claim is committed.

        Jobs with a latest start need more to complete.
        """
        equal: dict[Row, list[JobId]] = {}
        for job in jobs:
            if job.expires_at is None:
                if job.concurrency_key is not None:
                    self._keys[job.id] = job.concurrency_key
                equal.setdefault((job.fence, None, job.worker, job.boot, job.started_at), []).append(job.id)
        for (*columns, started_at), ids in equal.items():
            self._leases.update(dict.fromkeys(ids, (*columns, to_micros(started_at))))
        while len(self._leases) > MAX_LEASES:
            oldest = next(iter(self._leases))
            del self._leases[oldest]
            self._keys.pop(oldest, None)

    def group(self, settlements: Sequence[Settlement]) -> EqualCompletions | None:
        """Group completions by what they have in common; None if a lease is not known or there are too many groups.

        Also None if fences differ: leases are deleted by fence, and every transaction locks them in the order of ids.
        """
        if time.monotonic() < self._suspended_until:
            return None
        fence = settlements[0].fence
        groups: EqualCompletions = {}
        for one in settlements:
            lease = self._leases.get(one.job_id)
            if lease is None or not lease[0] == one.fence == fence:
                return None
            groups.setdefault((one.result, *lease), []).append(one.job_id)
            if len(groups) > _MAX_GROUPS:
                return None
        return groups

    def keyed(self, settlements: Iterable[Settlement]) -> list[Row]:
        """Return those of some jobs that have a concurrency key: pairs of key and job, in the order of ids."""
        keys = self._keys
        return sorted(((keys[one.job_id], one.job_id) for one in settlements if one.job_id in keys), key=_JOB_OF_PAIR)

    def remove(self, settlements: Iterable[Settlement]) -> None:
        for one in settlements:
            self._leases.pop(one.job_id, None)
            if self._keys:
                self._keys.pop(one.job_id, None)

    def suspend(self) -> None:
        """Do not use the cache for a while, after it has differed from the database."""
        self._suspended_until = time.monotonic() + SUSPENDED_SECONDS

"""What a store knows of the leases that it has given.

Nearly every job is settled by the process that claimed it, under the lease that it was given. So what the end of a job
copies from its lease need not be read: it is enough that the lease is still there under its fence and that nobody has
asked the job to stop, which the statement that takes it away tells by how many it found. Then all that there is to an
end goes in one script with the commit, where it had been three questions.

It may not be so any more: a lease is lost, somebody waits for a job. Then the script ends without having done anything,
all is asked as it always was, and for a moment nothing is taken for known. For who waits for one job waits for many,
and to find that out each time would cost more than it saves.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from rota.core.identity import JobId
from rota.core.instant import to_micros
from rota.core.job import Job
from rota.core.settlement import Settlement
from rota.stores.rows import Row

#: Of so many leases it is known what they say; the oldest are forgotten first.
MOST_KNOWN: Final = 65_536
#: How long nothing is taken for known after something was not as we knew it.
DOUBT_SECONDS: Final = 1.0
#: With more different ends than this, they are not worth it.
_MOST_ENDS: Final = 4

#: Jobs whose ends have all in common: the result; and of the lease its fence, the wish to stop, worker, boot and start.
Ends = dict[Row, list[JobId]]


class Lent:
    """Knows what leases say. Forgets them when they are settled."""

    def __init__(self) -> None:
        self._terms: dict[JobId, Row] = {}
        self._doubts_until = float("-inf")

    def note(self, jobs: Sequence[Job]) -> None:
        """Learn of jobs that were leased, once that is committed. What has a latest start has more to its end."""
        alike: dict[Row, list[JobId]] = {}
        for job in jobs:
            if job.expires_at is None:
                alike.setdefault((job.fence, None, job.worker, job.boot, job.started_at), []).append(job.id)
        for (*terms, started_at), ids in alike.items():
            self._terms.update(dict.fromkeys(ids, (*terms, to_micros(started_at))))
        while len(self._terms) > MOST_KNOWN:
            del self._terms[next(iter(self._terms))]

    def alike(self, settlements: Sequence[Settlement]) -> Ends | None:
        """Say which successes have all in common, if it is known of all of them and few differ; otherwise None.

        Nor where their fences differ: leases are taken away by fence, and everybody locks them in the order of ids.
        """
        if time.monotonic() < self._doubts_until:
            return None
        fence = settlements[0].fence
        ends: Ends = {}
        for one in settlements:
            terms = self._terms.get(one.job_id)
            if terms is None or not terms[0] == one.fence == fence:
                return None
            ends.setdefault((one.result, *terms), []).append(one.job_id)
            if len(ends) > _MOST_ENDS:
                return None
        return ends

    def forget(self, settlements: Iterable[Settlement]) -> None:
        """Forget what was settled, or could not be."""
        for one in settlements:
            self._terms.pop(one.job_id, None)

    def doubt(self) -> None:
        """Learn that something was not as it was known."""
        self._doubts_until = time.monotonic() + DOUBT_SECONDS

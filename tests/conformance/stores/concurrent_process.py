"""One of several processes that use one database at once. Prints the ids of the jobs it ran.

It submits its jobs one by one while its workers claim whatever is there. The workers stop when the submissions of this
process are over and nothing is left to claim: whoever submits last runs what is left, so no process waits for another,
and one that fails cannot hang the rest.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime

from builders import claim, means
from conformance.stores.adapters import BY_NAME
from rota.core.decision import decide
from rota.core.ids import JobId
from rota.core.lease import Renewal, WorkerId
from rota.core.outcome import Succeeded
from rota.core.submission import NewJob
from rota.ports.store import Store


def clock() -> datetime:
    return datetime.now(UTC)


async def submit(store: Store, number: int, count: int) -> None:
    for job in range(count):
        await store.insert([NewJob(JobId(number * 1_000_000 + job + 1), "concurrent_process")])


async def work(store: Store, worker: WorkerId, submitting: asyncio.Future[None]) -> list[JobId]:
    ran: list[JobId] = []
    is_last = False
    while not is_last:
        # Asked before the claim: what is submitted between the two is still claimed by the next round.
        is_over = submitting.done()
        held = await store.claim(claim(worker, 4))
        await store.renew([Renewal(job.id, job.fence) for job in held])
        applied = await store.settle([decide(job, Succeeded(), means()) for job in held])
        assert list(applied) == [job.id for job in held], "a lease was lost that nobody could have taken"
        ran += applied
        is_last = is_over and not held
    return ran


async def main(name: str, place: str, number: int, count: int) -> None:
    store = await BY_NAME[name].open(place, clock)
    submitting = asyncio.ensure_future(submit(store, number, count))
    workers = [WorkerId(f"worker-{number}-{slot}", "boot") for slot in range(2)]
    working = [asyncio.ensure_future(work(store, worker, submitting)) for worker in workers]
    await submitting
    ran = await asyncio.gather(*working)
    await store.close()
    for job_id in (job_id for batch in ran for job_id in batch):
        sys.stdout.write(f"{job_id}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))

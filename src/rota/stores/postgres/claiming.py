"""A claim from its first look to its answer: what was brought for it, what was heard of, what waits in its lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rota.core.job import Job
from rota.core.lease import Claim, Renewal
from rota.stores.postgres import leasing
from rota.stores.postgres.database import Database
from rota.stores.postgres.floors import Floors
from rota.stores.postgres.hearing import Ear
from rota.stores.postgres.lanes import Lane, Lanes
from rota.stores.postgres.open_claims import GOES_AWAY, OpenClaims
from rota.stores.rows import Row


class Claims:
    """Leases jobs to workers."""

    def __init__(self, database: Database, ear: Ear, open_claims: OpenClaims, floors: Floors) -> None:
        self._database = database
        self._ear = ear
        self._open_claims = open_claims
        self._floors = floors
        self._lanes = Lanes()

    async def claim(self, wanted: Claim, now: int | None) -> Sequence[Job]:
        """Lease due jobs to a worker, most urgent first; or give what was brought for it, if anything was."""
        may_be_repeated = not wanted.is_new
        if wanted.ids is None:
            self._ear.hear_work()
            brought = self._open_claims.take(wanted)
            if brought is not None:
                return brought.jobs(wanted) or await self._recall(brought.claim_id)
            unheard = await self._settle_formers(wanted, now)
            if unheard:
                return unheard
            may_be_repeated |= self._open_claims.doubts(wanted)
        rows: Sequence[Row] = ()
        late: Sequence[Job] = ()
        try:
            rows, late = await self._rows(wanted, now)
            if wanted.ahead and not rows and wanted.ids is None:
                ahead = await self._database.alone(leasing.claim_ahead, wanted, now)
                if ahead:
                    return ahead
        except leasing.RepeatedError:
            may_be_repeated = True
        if rows or late or wanted.claim_id is None or not may_be_repeated:
            return [*leasing.jobs_of(rows, wanted), *late]
        if self._open_claims.is_last_word(wanted):
            # Before we look, not with it: what is just being answered cannot be seen until that is committed.
            await self._database.alone(leasing.take_away, wanted.claim_id)
        jobs = await self._recall(wanted.claim_id)
        if jobs:
            # They came by name. The notice, which may be on its way or here already, must not bring them once more.
            self._open_claims.leave(wanted.worker.boot)
        return jobs

    async def _recall(self, claim_id: str) -> Sequence[Job]:
        return await self._database.read(leasing.recall, claim_id) or []

    async def _settle_formers(self, wanted: Claim, now: int | None) -> Sequence[Job]:
        """Give what former claims of a worker gave that it has not heard: most were called off in the midst."""
        names = self._open_claims.unsettled(wanted)
        late: list[Job] = []
        for name in names:
            # Whoever is just answering it has done so then, or will not.
            await self._database.alone(leasing.take_away, name)
            late += await self._late(name, wanted, now)
        # Only now: whoever is called off before that asks again.
        self._open_claims.note_settled(wanted.worker.boot, names)
        return late

    async def _late(self, claim_id: str, wanted: Claim, now: int | None) -> Sequence[Job]:
        """Give what was brought for the last claim of a worker, as far as its leases can be renewed.

        The worker counts them from when it asked anew, and they began before that.
        """
        jobs = await self._recall(claim_id)
        if not jobs:
            return ()
        renewals = [Renewal(job.id, job.fence, wanted.lease) for job in jobs]
        renewed = await self._database.alone(leasing.renew, renewals, now)
        return [replace(job, lease_until=one.until) for job, one in zip(jobs, renewed, strict=True) if one is not None]

    async def _rows(self, wanted: Claim, now: int | None) -> tuple[Sequence[Row], Sequence[Job]]:
        """Give what a claim leases, and what was brought for the last one of this worker when nobody heard it."""
        if wanted.ids is not None:
            return await self._database.alone(leasing.claim_handed_over, wanted, now), ()
        # Whoever asks has heard of it by that, also one who looks at all.
        heard = self._ear.take_heard()
        lanes = self._lanes.named(wanted)
        if lanes is None:
            lanes = await self._database.read(self._lanes.discovered, wanted)
        lanes = self._floors.placed(lanes)
        late: Sequence[Job] = ()
        rows = await self._claim_heard(heard, lanes, wanted, now) if heard else ()
        if not rows:
            rows, late = await self._claim_from(lanes, wanted, now)
        if rows:
            self._open_claims.leave(wanted.worker.boot)
            self._floors.claimed(*leasing.places_of(rows))
        return rows, late

    async def _claim_heard(
        self, heard: tuple[str, str], lanes: Sequence[Lane], wanted: Claim, now: int | None
    ) -> Sequence[Row]:
        """Lease the one job that was heard of, for who was woken by it and has room for more."""
        if wanted.is_woken and wanted.limit > 1 < len(lanes):
            for lane in lanes:
                if (lane.queue, lane.type) == heard:
                    return await self._database.alone(leasing.claim_one, wanted, lane, now)
        return []

    async def _claim_from(
        self, lanes: Sequence[Lane], wanted: Claim, now: int | None
    ) -> tuple[Sequence[Row], Sequence[Job]]:
        if not lanes:
            return [], ()
        # In a single lane a claim costs a seventh less by itself. And who looks ahead comes back to what it has left.
        stay = GOES_AWAY if len(lanes) == 1 or wanted.ahead else self._open_claims.stay(wanted)
        rows, is_answered = await self._database.alone(leasing.claim, wanted, lanes, stay, now)
        late: Sequence[Job] = ()
        if stay.former is not None and stay.former != wanted.claim_id:
            late = await self._late(stay.former, wanted, now) if is_answered else ()
            self._open_claims.note_settled(wanted.worker.boot, (stay.former,))
        if not leasing.were_overtaken(rows):
            return rows, late
        rows = []
        for lane in await self._database.read(leasing.busy, wanted, lanes, now):
            # Others were faster everywhere at once. What they left behind is further down, lane by lane.
            rows, _ = await self._database.alone(leasing.claim, wanted, [lane], GOES_AWAY, now)
            if rows:
                break
        return rows, late

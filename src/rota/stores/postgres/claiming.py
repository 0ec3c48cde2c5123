"""A claim from its first look to its answer: what was brought for it, what was heard of, what waits in its lanes."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.job import Job
from rota.core.lease import Claim
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
        """Lease due jobs to a worker, most urgent first; what was brought for it, if anything was."""
        may_be_repeated = not wanted.is_new
        if wanted.ids is None:
            self._ear.hear_work()
            brought = self._open_claims.take(wanted)
            if brought is not None:
                row = brought.row()
                return await self._recall(wanted) if row is None else leasing.jobs_of([row], wanted)
            may_be_repeated |= self._open_claims.doubts(wanted)
        rows: Sequence[Row] = ()
        try:
            rows = await self._rows(wanted, now)
            if wanted.ahead and not rows and wanted.ids is None:
                ahead = await self._database.alone(leasing.claim_ahead, wanted, now)
                if ahead:
                    return ahead
        except leasing.RepeatedError:
            may_be_repeated = True
        if rows or wanted.claim_id is None or not may_be_repeated:
            return leasing.jobs_of(rows, wanted)
        return await self._recall(wanted)

    async def _recall(self, wanted: Claim) -> Sequence[Job]:
        return await self._database.read(leasing.recall, wanted.claim_id or "") or []

    async def _rows(self, wanted: Claim, now: int | None) -> Sequence[Row]:
        if wanted.ids is not None:
            return await self._database.alone(leasing.claim_handed_over, wanted, now)
        # Whoever asks has heard of it by that, also one who looks at all.
        heard = self._ear.take_heard()
        lanes = self._lanes.named(wanted)
        if lanes is None:
            lanes = await self._database.read(self._lanes.discovered, wanted)
        lanes = self._floors.placed(lanes)
        rows = await self._claim_heard(heard, lanes, wanted, now) if heard else ()
        rows = rows or await self._claim_from(lanes, wanted, now)
        if rows:
            self._floors.claimed(*leasing.places_of(rows))
        return rows

    async def _claim_heard(
        self, heard: tuple[str, str], lanes: Sequence[Lane], wanted: Claim, now: int | None
    ) -> Sequence[Row]:
        """Lease the one job that was heard of, for who was woken by it and has room for more."""
        if wanted.is_woken and wanted.limit > 1 < len(lanes):
            for lane in lanes:
                if (lane.queue, lane.type) == heard:
                    return await self._database.alone(leasing.claim_one, wanted, lane, now)
        return []

    async def _claim_from(self, lanes: Sequence[Lane], wanted: Claim, now: int | None) -> Sequence[Row]:
        if not lanes:
            return []
        rows = await self._database.alone(leasing.claim, wanted, lanes, self._open_claims.stay(wanted), now)
        if not leasing.were_overtaken(rows):
            return rows
        rows = []
        for lane in await self._database.read(leasing.busy, wanted, lanes, now):
            # Others were faster everywhere at once. What they left behind is further down, lane by lane.
            rows = await self._database.alone(leasing.claim, wanted, [lane], GOES_AWAY, now)
            if rows:
                break
        return rows

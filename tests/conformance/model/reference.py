"""The reference model: the whole port over plain dictionaries.

It shares the core's decisions (`judge`, `turn`, `first_state`) with the product, because the core decides; it shares
nothing with any store. The conformance suite runs on it like on an adapter, so that the model cannot drift from what
the port says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from conformance.model.schedules import Schedules
from rota.core.cluster import ClusterView, Leadership, Member, MemberHeartbeat, Role
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim
from rota.core.ledger import LedgerEntry, Token
from rota.core.lifecycle import State
from rota.core.queue import CONFIGURATION, Queue
from rota.core.step import Resolution, Step
from rota.stores.no_limits import NoLimits

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Steps(Schedules):
    async def intend(
        self, job_id: JobId, fence: int, key: str, *, now: datetime | None = None
    ) -> tuple[Step, bool] | None:
        if not self.holds(job_id, fence):
            return None
        is_new = (job_id, key) not in self.guarded
        step = self.guarded.setdefault((job_id, key), Step(job_id, key, fence, self.at(now)))
        return step, is_new

    async def conclude(
        self, job_id: JobId, fence: int, key: str, outcome: str, *, now: datetime | None = None
    ) -> Step | None:
        step = self.guarded.get((job_id, key))
        if step is None or not self.holds(job_id, fence):
            return None
        if not step.is_done:
            step = self.guarded[job_id, key] = replace(step, ended_at=self.at(now), outcome=outcome)
        return step

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        step = self.guarded.get((job_id, key))
        if step is None or step.is_done or not self.holds(job_id, fence):
            return False
        del self.guarded[job_id, key]
        return True

    async def resolve(
        self, resolution: Resolution, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        place = (resolution.job_id, resolution.key)
        step = self.guarded.get(place)
        job = self.jobs.get(resolution.job_id)
        if step is None or step.is_done or job is None or job.state is State.RUNNING:
            return False
        if resolution.outcome is None:
            del self.guarded[place]
        else:
            self.guarded[place] = replace(step, ended_at=self.at(now), outcome=resolution.outcome)
        self.write(entry, self.at(now))
        return True

    async def steps(self, job_id: JobId) -> Sequence[Step]:
        return [step for step in self.guarded.values() if step.job_id == job_id]


class Fleet(Steps):
    async def beat(self, members: Sequence[Member], *, now: datetime | None = None) -> None:
        for member in members:
            known = self.fleet.get(member.boot)
            first_seen = known.started_at if known is not None else self.at(now)
            self.fleet[member.boot] = replace(member, started_at=member.started_at or first_seen, seen_at=self.at(now))

    async def members(self, *, role: Role | None = None, since: datetime | None = None) -> Sequence[Member]:
        return sorted(
            (
                member
                for member in self.fleet.values()
                if role in {None, member.role} and (since is None or (member.seen_at or _LONG_AGO) >= since)
            ),
            key=lambda member: (member.name, member.started_at or _LONG_AGO, member.boot),
        )

    async def leave(self, boots: Iterable[str]) -> None:
        for boot in boots:
            self.fleet.pop(boot, None)

    async def lead(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Leadership:
        moment = self.at(now)
        old = self.leads.get(name, Leadership(name, "", 0, _LONG_AGO))
        if old.holder == holder or old.until <= moment:
            term = old.term + (old.holder != holder)
            self.leads[name] = Leadership(name, holder, term, moment + lasting)
        return self.leads[name]

    async def leader(self, name: str, *, now: datetime | None = None) -> Leadership | None:
        found = self.leads.get(name)
        return found if found is not None and found.until > self.at(now) else None

    async def resign(self, name: str, holder: str) -> None:
        if name in self.leads and self.leads[name].holder == holder:
            self.leads[name] = replace(self.leads[name], until=_LONG_AGO)

    async def check_in(self, told: MemberHeartbeat, *, now: datetime | None = None) -> ClusterView:
        await self.beat(told.members, now=now)
        if told.holder is not None:
            await self.lead(told.lead, told.holder, told.lasting, now=now)
        return ClusterView(await self.leader(told.lead, now=now), self.settings.get(CONFIGURATION))

    async def put_queue(self, queue: Queue, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        old = self.settings.get(queue.name)
        if queue.version != (old.version if old is not None else 0):
            return False
        self.settings[queue.name] = replace(queue, version=queue.version + 1)
        self.write(entry, self.at(now))
        return True

    async def queues(self) -> Sequence[Queue]:
        return sorted(self.settings.values(), key=lambda queue: queue.name)


class Reference(NoLimits, Fleet):
    blocking: None = None
    has_handoff = False

    def handed_off(self, _wanted: Claim) -> Sequence[Job]:
        return ()

    async def record(self, entries: Sequence[LedgerEntry], *, now: datetime | None = None) -> None:
        for entry in entries:
            self.write(entry, self.at(now))

    async def ledger(self, *, before: int | None = None, limit: int = 100) -> Sequence[LedgerEntry]:
        return [entry for entry in reversed(self.book) if before is None or entry.number < before][:limit]

    async def put_tokens(self, tokens: Sequence[Token], *, entry: LedgerEntry | None = None) -> None:
        self.access.update({token.id: token for token in tokens})
        self.write(entry, self.clock())

    async def tokens(self, *, ids: Sequence[str] = ()) -> Sequence[Token]:
        return [token for token in self.access.values() if not ids or token.id in ids]

    async def close(self) -> None:
        return None

    async def time(self) -> datetime:
        return self.clock()

    def watch_for_work(self) -> None:
        return None

    async def watch(self, at_most: timedelta, _heed: object = None) -> Collection[str]:
        await asyncio.sleep(at_most.total_seconds())
        return ()

    async def check(self) -> Sequence[str]:
        return []

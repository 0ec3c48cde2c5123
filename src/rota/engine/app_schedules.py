"""Schedules defined in code: created when an app starts, paused when no process of that app defines them any more.

Every process that defines schedules registers in the store as a member of role `app` whose types are the names of its
schedules, and repeats that every `BEAT_SECONDS`. A schedule of an app that none of its live processes defines is
paused, with an entry in the ledger, once two checks in a row have found that.

So while old and new processes run side by side, the schedules of both continue. If no process of an app runs, its
schedules stay. Only processes with a scheduler define schedules: a worker that imports a part of the app does not
count. A process that defines a paused schedule again resumes it. A process that died counts as live for `LIVING`.

A schedule belongs to the app that created it first; one that an operator created belongs to no app. An app that defines
the same name leaves such a schedule alone and logs a warning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Final

from rota.core.cluster import Member, Role
from rota.core.errors import RotaError, ScheduleNotFound
from rota.core.schedule import Draft, Schedule
from rota.engine.schedules import Schedules
from rota.ports.client import Actor
from rota.ports.store import Store

BEAT_SECONDS: Final = 15.0
LIVING: Final = timedelta(seconds=45)
_PAGE: Final = 500
#: How many checks are made after the set of defining processes has changed.
_CHECKS: Final = 3
_log = logging.getLogger("rota.schedules")


class AppSchedules:
    """The schedules that one process of an app defines."""

    def __init__(self, store: Store, schedules: Schedules, app: str, boot: str, drafts: Sequence[Draft]) -> None:
        self._store = store
        self._schedules = schedules
        self._app = app
        self._drafts = [replace(draft, app=app) for draft in drafts]
        self._by = Actor(f"app {app}")
        names = tuple(sorted(draft.name for draft in drafts))
        self._member = Member(role=Role.APP, name=app, boot=f"{boot}/app", types=names)
        self._undefined: frozenset[str] = frozenset()
        self._defining: frozenset[tuple[str, tuple[str, ...]]] = frozenset()
        self._same_checks = 0

    @property
    def _why(self) -> str:
        return f"no running process of app {self._app!r} defines it"

    async def put(self) -> None:
        """Create or update the schedules, and register this process as one that defines them."""
        await self._store.beat([self._member])
        for draft in self._drafts:
            stored = await self._schedules.put(draft, self._by)
            if stored.app == self._app:
                await self._resume(stored)
            else:
                _log.warning("%s", _conflict(stored, self._app))

    async def run(self) -> None:
        """Renew the registration and pause schedules that no process defines, until cancelled."""
        try:
            while True:
                try:
                    await self.look()
                except RotaError as error:
                    _log.warning("could not check the schedules of app %r: %s", self._app, error)
                await asyncio.sleep(BEAT_SECONDS)
        finally:
            with suppress(RotaError):
                await self._store.leave([self._member.boot])

    async def look(self) -> int:
        """Pause the schedules of this app that no live process defined in two checks in a row; return how many."""
        await self._store.beat([self._member])
        since = await self._store.time() - LIVING
        living = await self._store.members(role=Role.APP, since=since)
        defining = frozenset((one.boot, one.types or ()) for one in living if one.name == self._app)
        if not self._needs_check(defining):
            return 0
        defined = {name for _, names in defining for name in names}
        owned = [one for one in await self._all() if one.app == self._app]
        for schedule in owned:
            if schedule.name in (self._member.types or ()):
                await self._resume(schedule)
        undefined = [one for one in owned if one.name not in defined and one.paused_at is None]
        gone = [one for one in undefined if one.name in self._undefined]
        self._undefined = frozenset(one.name for one in undefined)
        for schedule in gone:
            with suppress(ScheduleNotFound):
                await self._schedules.pause(schedule.id, self._why, self._by, keeps_owed=True)
                _log.warning("schedule %r is paused: %s", schedule.name, self._why)
        return len(gone)

    def _needs_check(self, defining: frozenset[tuple[str, tuple[str, ...]]]) -> bool:
        """Whether to read the schedules: not if the same processes defined the same in the last checks."""
        self._same_checks = self._same_checks + 1 if defining == self._defining else 0
        self._defining = defining
        return self._same_checks < _CHECKS

    async def _resume(self, schedule: Schedule) -> None:
        """Resume a schedule that was paused because no process defined it; not one that an operator has paused.

        The catch-up policy decides about the fire times in between, as if no scheduler had run.
        """
        if schedule.paused_at is not None and schedule.pause_reason == self._why:
            with suppress(ScheduleNotFound):
                await self._schedules.resume(schedule.id, self._by, keeps_owed=True)

    async def _all(self) -> list[Schedule]:
        schedules: list[Schedule] = []
        while page := await self._store.schedules(after=schedules[-1].name if schedules else "", limit=_PAGE):
            schedules += page
        return schedules


def _conflict(schedule: Schedule, app: str) -> str:
    owner = "was created by an operator" if schedule.app is None else f"belongs to app {schedule.app!r}"
    return (
        f"schedule {schedule.name!r} of app {app!r} is not created: the schedule of this name {owner} and stays as"
        " it is; rename the task, or delete that schedule and start again"
    )

"""Dead-letter verbs: how many jobs of each cause died in the last hours, and operators' notes on causes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from rota.core.ledger import LedgerEntry
from rota.core.value import value
from rota.engine.deps import EngineDeps
from rota.ports.client import Actor
from rota.ports.store import DeadNote
from rota.telemetry.events import Acted

#: A type and a fingerprint, which is empty for jobs that died without an error.
Cause: TypeAlias = tuple[str, str]
HOURS: Final = 24
_HOUR: Final = timedelta(hours=1)
#: More causes than a store has: a note is refused for a cause of which no job is dead.
_ALL: Final = 1_000_000


@value
class DeadTrend:
    """The dead jobs of each cause by the hour of their death, oldest hour first; the last one is the current hour."""

    since: datetime
    counts: Mapping[Cause, tuple[int, ...]]

    def of(self, cause: Cause) -> tuple[int, ...]:
        return self.counts.get(cause, (0,) * HOURS)


class DeadLetters:
    """The trend of causes, and notes on them."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def trend(self) -> DeadTrend:
        """Count the jobs that are dead by cause and hour of death, in the last day. Retried jobs are not counted."""
        hour = self._deps.clock().astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        since = hour - (HOURS - 1) * _HOUR
        counts: dict[Cause, list[int]] = {}
        for one in await self._deps.store.dead_trend(since, _HOUR):
            # The clock of another host may be ahead.
            place = min(one.step, HOURS - 1)
            counts.setdefault((one.type, one.fingerprint or ""), [0] * HOURS)[place] += one.count
        return DeadTrend(since, {cause: tuple(hours) for cause, hours in counts.items()})

    async def notes(self) -> Mapping[Cause, DeadNote]:
        return {(note.type, note.fingerprint): note for note in await self._deps.store.dead_notes()}

    async def set_note(self, cause: Cause, text: str, by: Actor) -> DeadNote | None:
        """Set the note on a cause; None if no job is dead by it."""
        groups = await self._deps.store.dead_groups(_ALL)
        if cause not in {(group.type, group.fingerprint or "") for group in groups}:
            return None
        await self._put(DeadNote(*cause, text, by.name), "set_note", by)
        return (await self.notes()).get(cause)

    async def remove_note(self, cause: Cause, by: Actor) -> bool:
        """Remove the note on a cause; return whether there was one."""
        return await self._put(DeadNote(*cause), "remove_note", by)

    async def _put(self, note: DeadNote, action: str, by: Actor) -> bool:
        target = f"{note.type} {note.fingerprint}".rstrip()
        detail = note.text or ""
        entry = LedgerEntry(by.name, f"dead_letters.{action}", target, by.origin, detail, surface=by.surface)
        is_changed = await self._deps.store.put_dead_note(note, entry=entry)
        if is_changed:
            self._deps.telemetry.emit(Acted(entry))
        return is_changed

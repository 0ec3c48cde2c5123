"""Power cuts: what a store acknowledged is on the disk.

A load works on a store whose files are recorded (`recorder`): it opens a new file with all its migrations, works,
closes it, opens it again, works, and closes it. Then the power is cut at many places on the tape, in the work, in a
checkpoint, while opening or closing. At each place one of the folders that the cut may have left (`simulated_disk`) is
drawn, opened as after a restart with the standard driver and, as another copy, with apsw, written to, and verified
(`verification`). One of these folders is where the next round begins, so that cuts also fall into the recovery from
earlier ones.

Rounds differ in settings that make rare things frequent: as shipped; with a checkpoint every few pages and a
write-ahead log that is truncated; with a cache so small that uncommitted pages spill into the log. In all of them the
log is made longer ahead of commits after every other one, and the zeros are on the tape like what SQLite writes.

``python -m crash.power_cut --cuts 20000`` does more of it. With ``--synchronous NORMAL`` or ``OFF`` it shows what those
settings would cost, and that the harness would notice.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final
from unittest.mock import patch

from crash.acknowledgements import Kind, Promises, Violation
from crash.apsw_connection import ApswConnection
from crash.pragma_override import Settings, altered
from crash.recorder import Changed, Event, Phase, Player, RecordingVfs, Synced, Tape, Told
from crash.scratch import DATABASE, lay_down, memory_folder
from crash.simulated_disk import SECTOR, Write
from crash.verification import verify
from crash.workload import Identity, TickingClock, Workload
from rota.core.errors import StoreUnavailable
from rota.core.ids import JobId
from rota.core.submission import NewJob
from rota.stores.sqlite import SqliteStore, wal_growth
from rota.stores.sqlite.driver import SqliteConnection, StandardConnection

AS_SHIPPED: Final[Settings] = {}
OFTEN_CHECKPOINTED: Final[Settings] = {"wal_autocheckpoint": "24", "journal_size_limit": str(64 * SECTOR)}
SPILLING: Final[Settings] = {"wal_autocheckpoint": "60", "cache_size": "8"}
ROUNDS: Final = (OFTEN_CHECKPOINTED, AS_SHIPPED, SPILLING)
#: How many rounds one database lives through.
GENERATIONS: Final = 4
CUTS_PER_ROUND: Final = 50
#: How often the program says how far it is.
CUTS_PER_LINE: Final = 1000
#: How much is done between opening and closing.
ANSWERS_PER_VISIT: Final = 60
TASKS: Final = 6

#: The ways to open what a cut has left.
DRIVERS: Final[tuple[Callable[[str], SqliteConnection], ...]] = (StandardConnection, ApswConnection)
_SHARES: Final = {"opening": 2, "working": 3, "checkpoint": 3, "closing": 2, "closed": 1}
_NEVER_SUBMITTED: Final = JobId(1)


@dataclass(slots=True)
class Report:
    """What was done and what was found."""

    cuts: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    events: int = 0
    #: How many cuts did damage of which kind, and some words on each.
    kinds: Counter[Kind] = field(default_factory=Counter)
    bad_cuts: int = 0
    examples: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add_cut(self, phase: str, place: str, found: list[Violation]) -> None:
        self.cuts += 1
        self.phases[phase] += 1
        if found:
            self.bad_cuts += 1
            self.kinds.update({violation.kind for violation in found})
            self.examples.append(f"{place}: {found[0]} (and {len(found) - 1} more)")

    def add(self, other: Report) -> None:
        """Add what another run did and found."""
        self.cuts += other.cuts
        self.phases += other.phases
        self.answers += other.answers
        self.events += other.events
        self.kinds += other.kinds
        self.bad_cuts += other.bad_cuts
        self.examples += other.examples
        self.seconds += other.seconds

    def __str__(self) -> str:
        rate = self.cuts / self.seconds if self.seconds else 0.0
        kinds = ", ".join(f"{kind} in {count}" for kind, count in sorted(self.kinds.items())) or "nothing"
        return (
            f"{self.cuts} cuts {dict(sorted(self.phases.items()))} in {self.seconds:.1f} s ({rate:.0f}/s), over "
            f"{self.answers} answers and {self.events} events; {self.bad_cuts} cuts did harm: {kinds}"
        )


@dataclass(frozen=True, slots=True)
class Remains:
    """The files that a cut left, and the acknowledgements until then: the start of the next round."""

    image: dict[str, bytes]
    promises: Promises


async def cut(cuts: int, seed: int, *, settings: Settings = AS_SHIPPED, keep: Path | None = None) -> Report:
    """Record loads and cut the power, `cuts` times in all. `settings` go over those of every round.

    The files of a cut that violated a guarantee are kept in the folder `keep`.
    """
    report, began, rng, round_ = Report(), time.monotonic(), random.Random(seed), 0
    remains = Remains({}, Promises())
    while report.cuts < cuts:
        generation = round_ % GENERATIONS
        if generation == 0:
            remains = Remains({}, Promises())
        tape = Tape(before=remains.image)
        await record(tape, rng, generation, {**ROUNDS[round_ % len(ROUNDS)], **settings})
        number = min(CUTS_PER_ROUND, cuts - report.cuts)
        place = f"seed {seed}, round {round_}"
        remains = await _cut_tape(tape, remains.promises, rng, number, report, place, keep)
        report.events += len(tape.events)
        round_ += 1
    report.seconds = time.monotonic() - began
    return report


async def record(tape: Tape, rng: random.Random, generation: int, settings: Settings) -> None:
    """Let a load work on what is left, and close, and open again."""
    vfs = RecordingVfs(tape)
    clock = TickingClock()
    with memory_folder() as folder, _preallocated_often(tape):
        lay_down(tape.before, folder)
        for visit in range(2):
            tape.mark("opening")
            connect = altered(lambda path: ApswConnection(path, vfs=vfs.name), settings)
            store = await SqliteStore.open(folder / DATABASE, clock=clock, connect=connect)
            load = Workload(store, Identity(visit, generation), tape.note, rng, clock, keys=40)
            tape.mark("working")
            await load.settle_in()
            await load.run(TASKS, partial(_has_enough, tape, len(tape.events)))
            await load.prune()
            tape.mark("closing")
            await store.close()
        tape.mark("closed")
    vfs.unregister()


@contextmanager
def _preallocated_often(tape: Tape) -> Iterator[None]:
    """Preallocate the log again and again, and record those writes, which bypass SQLite, too."""
    log, really = f"{DATABASE}-wal", os.pwrite

    def write(descriptor: int, data: bytes, offset: int) -> int:
        tape.changed(log, tape.opened(log), Write(offset, data))
        return really(descriptor, data, offset)

    often = patch.multiple(wal_growth, MINIMUM_BYTES=8 * SECTOR, MAX_STEP_BYTES=24 * SECTOR, COMMITS_BETWEEN_CHECKS=2)
    with often, patch.object(os, "pwrite", write):
        yield


def _has_enough(tape: Tape, first: int) -> bool:
    """Whether enough answers came since an event."""
    answer = [event.line for event in tape.events[first:] if isinstance(event, Told)]
    return sum(1 for line in answer if line[0] == "ok") >= ANSWERS_PER_VISIT


async def _cut_tape(
    tape: Tape, promises: Promises, rng: random.Random, cuts: int, report: Report, place: str, keep: Path | None
) -> Remains:
    """Cut the power at so many places on a tape, and give what one of the harmless cuts left; nothing if none was."""
    player, promises = Player(tape), copy.deepcopy(promises)
    before = promises.acknowledged
    remains, sound = Remains({}, Promises()), 0
    for number, (position, phase) in enumerate(sorted(_moments(tape.events, rng, cuts))):
        for line in player.play(position):
            promises.take(line)
        image = player.folder.surviving(rng)
        found = await examine(image, promises, rng)
        report.add_cut(phase, f"{place}, cut {number} at event {position} of {len(tape.events)} ({phase})", found)
        if found and keep is not None:
            kept = keep / f"{place}, cut {number}"
            kept.mkdir(parents=True)
            lay_down(image, kept)
        elif not found:
            sound += 1
            if rng.randrange(sound) == 0:
                remains = Remains(image, copy.deepcopy(promises))
    for line in player.play(len(tape.events)):
        promises.take(line)
    report.answers += promises.acknowledged - before
    return remains


def _moments(events: list[Event], rng: random.Random, cuts: int) -> Iterator[tuple[int, str]]:
    """Draw places on a tape: first the phase, so that short ones are not missed, then the event."""
    phases: dict[str, list[int]] = {}
    for position, phase in enumerate(phases_of(events)):
        phases.setdefault(phase, []).append(position)
    for phase in rng.choices(list(phases), [_SHARES[phase] for phase in phases], k=cuts):
        yield rng.choice(phases[phase]), phase


def phases_of(events: list[Event]) -> Iterator[str]:
    """Say of each event what was going on. The database file itself is written to in checkpoints only."""
    phase, is_checkpoint = "opening", False
    for event in events:
        match event:
            case Phase(name):
                phase = name
            case Changed(name, _, _) if name == DATABASE:
                is_checkpoint = True
        yield "checkpoint" if is_checkpoint else phase
        if isinstance(event, Synced) and event.name == DATABASE:
            is_checkpoint = False


async def examine(image: dict[str, bytes], promises: Promises, rng: random.Random) -> list[Violation]:
    """Open what is left as after a restart, with each driver, and verify it."""
    found: list[Violation] = []
    for connect in DRIVERS:
        with memory_folder() as folder:
            lay_down(image, folder)
            _leave_wal_index(folder, rng)
            found += await _use(folder / DATABASE, connect)
            if not found:
                submitted = copy.copy(promises)
                submitted.tried = promises.tried | {_NEVER_SUBMITTED}
                found += verify(folder / DATABASE, submitted)
    return found


async def _use(path: Path, connect: Callable[[str], SqliteConnection]) -> list[Violation]:
    """See whether a store opens, finds itself sound, and can be written to."""
    try:
        store = await SqliteStore.open(path, connect=connect)
    except StoreUnavailable as error:
        return [Violation(Kind.DAMAGED, str(error))]
    try:
        findings = await store.check()
        # Its behaviour with impossible rows is not specified.
        if not findings:
            await store.census()
            await store.insert([NewJob(_NEVER_SUBMITTED, "probe")])
        return [Violation(Kind.DAMAGED, finding) for finding in findings]
    except StoreUnavailable as error:
        return [Violation(Kind.DAMAGED, str(error))]
    finally:
        await store.close()


def _leave_wal_index(folder: Path, rng: random.Random) -> None:
    """Leave of the wal-index what a cut may: nothing, an empty file, or anything."""
    length = rng.choice([None, 0, 512, 32768])
    if length is not None:
        (folder / f"{DATABASE}-shm").write_bytes(rng.randbytes(length))


def main(arguments: list[str] | None = None) -> int:
    """Cut the power, print what came of it, and give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m crash.power_cut", description=__doc__.partition("\n")[0])
    parser.add_argument("--cuts", type=int, default=1000, help="how often to cut the power (1000)")
    parser.add_argument("--seed", type=int, default=None, help="repeats the choices, though not the threads' timing")
    parser.add_argument("--synchronous", default="FULL", help="the setting to test (FULL, as shipped)")
    parser.add_argument("--keep", type=Path, default=None, help="where to keep what a harmful cut left")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    sys.stdout.write(f"SEED={seed}\n")
    settings = AS_SHIPPED if options.synchronous == "FULL" else {"synchronous": options.synchronous}
    total = Report()
    for done in range(0, options.cuts, CUTS_PER_LINE):
        cuts = min(CUTS_PER_LINE, options.cuts - done)
        report = asyncio.run(cut(cuts, seed + done, settings=settings, keep=options.keep))
        total.add(report)
        sys.stdout.write(f"synchronous={options.synchronous}: {report}\n")
        sys.stdout.writelines(f"  {example}\n" for example in report.examples[:20])
        sys.stdout.flush()
    sys.stdout.write(f"total synchronous={options.synchronous}: {total}\n")
    return min(total.bad_cuts, 1)


if __name__ == "__main__":
    sys.exit(main())

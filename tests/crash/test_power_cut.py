"""Three hundred power cuts, and a test that weaker settings lose data. `python -m crash.power_cut` makes more."""

from __future__ import annotations

import random

import pytest

from crash.acknowledgements import Kind, Promises
from crash.power_cut import OFTEN_CHECKPOINTED, cut, examine, phases_of, record
from crash.recorder import Changed, Deleted, Player, Synced, Tape
from crash.scratch import DATABASE
from crash.simulated_disk import Truncate, Write

SEED = 20260301


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
async def test_a_power_cut_loses_nothing_that_was_acknowledged(seed: int) -> None:
    report = await cut(75, seed)
    assert report.examples == [], report
    assert report.cuts == 75
    # Cuts fell into the making of the file with its migrations, into the work, into checkpoints and into the close.
    assert {"opening", "working", "checkpoint", "closing"} <= report.phases.keys()
    assert min(report.phases[phase] for phase in ("opening", "working", "checkpoint", "closing")) >= 3


async def test_with_synchronous_normal_the_harness_finds_lost_commits_and_no_damage() -> None:
    report = await cut(80, SEED, settings={"synchronous": "NORMAL"})
    assert report.kinds[Kind.LOST] >= 5, report
    assert report.kinds.keys() <= {Kind.LOST, Kind.WENT_BACK}, report


async def test_with_synchronous_off_the_harness_finds_damage() -> None:
    report = await cut(80, SEED, settings={"synchronous": "OFF"})
    # A dozen or so, fewer where the machine is busy and commits are large: one is proof enough.
    assert report.kinds[Kind.DAMAGED] >= 1, report
    assert report.kinds[Kind.LOST] >= 5, report


async def test_a_recording_holds_all_that_a_cut_can_fall_into() -> None:
    tape = Tape()
    await record(tape, random.Random(SEED), 0, OFTEN_CHECKPOINTED)
    phases = list(phases_of(tape.events))
    assert set(phases) == {"opening", "working", "checkpoint", "closing", "closed"}
    wal = f"{DATABASE}-wal"
    # A checkpoint while opening and two while closing are sure; the others are the load's.
    assert sum(1 for event in tape.events if isinstance(event, Synced) and event.name == DATABASE) > 10
    assert any(
        isinstance(event, Changed) and event.name == wal and event.change == Truncate(32768) for event in tape.events
    )
    # And the log is made longer ahead of commits, also where it was cut off.
    written = [event.change for event in tape.events if isinstance(event, Changed) and event.name == wal]
    assert sum(1 for change in written if isinstance(change, Write) and not any(change.data)) > 5
    assert Deleted(wal, is_synced=False) in tape.events
    assert Deleted(f"{DATABASE}-journal", is_synced=False) in tape.events


async def test_a_recording_played_to_its_end_is_the_file_that_the_store_left() -> None:
    tape, promises = Tape(), Promises()
    await record(tape, random.Random(SEED), 0, OFTEN_CHECKPOINTED)
    player = Player(tape)
    for line in player.play(len(tape.events)):
        promises.take(line)
    image = {name: platter.current() for name, platter in player.folder.names.items()}
    assert list(image) == [DATABASE]
    assert await examine(image, promises, random.Random(SEED)) == []


async def test_without_its_write_ahead_log_a_database_in_use_is_found_to_have_lost_commits() -> None:
    tape, promises = Tape(), Promises()
    await record(tape, random.Random(SEED), 0, {})
    player = Player(tape)
    closing = list(phases_of(tape.events)).index("closing")
    for line in player.play(closing):
        promises.take(line)
    image = {name: platter.current() for name, platter in player.folder.names.items()}
    assert await examine(image, promises, random.Random(SEED)) == []
    del image[f"{DATABASE}-wal"]
    assert Kind.LOST in {violation.kind for violation in await examine(image, promises, random.Random(SEED))}

"""kill -9, fifty times on one file and twelve times beside other processes. `python -m crash.kill` runs longer."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.acknowledgements import Promises
from crash.child_processes import WriterForker, listen
from crash.kill import Report, kill_one, kill_one_of_many
from crash.verification import verify
from crash.writer import Errand

SEED = 20260301


@pytest.fixture(scope="module")
def forker() -> Iterator[WriterForker]:
    with WriterForker() as forker:
        yield forker


def _complaints(report: Report) -> list[str]:
    return [str(violation) for violation in report.violations]


def test_fifty_kills_of_the_only_writer_lose_nothing_that_was_acknowledged(
    forker: WriterForker, tmp_path: Path
) -> None:
    report = kill_one(forker, tmp_path, 50, random.Random(SEED))
    assert _complaints(report) == [], report
    assert report.kills == report.verified == 50
    # The run is worth something only if all of it happened: keys, batches, claims, ends, fire times, steps, pruning.
    assert report.kills_in_opening > 0
    assert {"insert", "claim", "settle", "fire", "step", "prune", "lead", "record", "look"} <= report.answers.keys()
    assert report.answers.total() > 1000


def test_a_writer_killed_among_others_is_not_noticed_by_them(forker: WriterForker, tmp_path: Path) -> None:
    report = kill_one_of_many(forker, tmp_path, 12, random.Random(SEED))
    assert _complaints(report) == [], report
    assert report.kills == 12
    assert report.answers.total() > 1000


def test_processes_that_come_and_go_take_nothing_away_from_those_that_stay(
    forker: WriterForker, tmp_path: Path
) -> None:
    """The last one to close a database removes its write-ahead log, and must not mistake itself for the last.

    Once a store dropped its own locks while it opened its connections; a second process that merely opened and closed
    the file then took the log away, and every acknowledgement after that was void.
    """
    path, promises = tmp_path / "visited.db", Promises()
    staying = forker.start(Errand(str(path), SEED, number=0, tasks=4))
    visiting = [
        forker.start(Errand(str(path), SEED + number, number=number, tasks=2, answers_per_visit=3))
        for number in range(1, 4)
    ]
    for _, line in listen([staying, *visiting], within=30):
        promises.take(line)
        if promises.acknowledged >= 1500:
            break
    for child in (*visiting, staying):
        child.dismiss()
    for _, line in listen([staying, *visiting], within=30):
        promises.take(line)
    assert [child.bury() for child in (staying, *visiting)] == [0, 0, 0, 0]
    assert [str(violation) for violation in verify(path, promises)] == []


def test_a_writer_that_is_told_to_go_says_all_it_knows_and_leaves_no_log(forker: WriterForker, tmp_path: Path) -> None:
    path, promises = tmp_path / "dismissed.db", Promises()
    child = forker.start(Errand(str(path), SEED))
    for _, line in listen([child], within=30):
        promises.take(line)
        if promises.acknowledged == 50:
            child.dismiss()
    assert child.bury() == 0
    assert not path.with_name(f"{path.name}-wal").exists()
    assert verify(path, promises) == []


def test_the_end_of_a_writing_process_is_reported(forker: WriterForker, tmp_path: Path) -> None:
    child = forker.start(Errand(str(tmp_path / "killed.db"), SEED))
    child.kill()
    assert child.bury() == -signal.SIGKILL
    failing = forker.start(Errand(str(tmp_path / "missing" / "killed.db"), SEED))
    (line,) = [line for _, line in listen([failing], within=30)]
    assert line[0] == "error"
    assert "StoreUnavailable" in line[1]
    assert failing.bury() == 1

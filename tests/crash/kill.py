"""kill -9: what a store acknowledged survives the death of its process at any moment.

`kill_one` lets one writer after another work on the same file and kills each at a moment drawn from the seed: while it
opens the file and recovers what its predecessor left, or after some number of answers, in the midst of whatever comes
next. The files are verified after every kill, on a copy, so that the next writer finds them as the dead one left them.

`kill_one_of_many` keeps several writers on one file and kills one at a time. The others must not notice: no error, no
answer that takes seconds. The file is verified while they work, and at the end.

``python -m crash.kill --kills 2000`` does both, on a fresh file now and then.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from crash.acknowledgements import Kind, Line, Promises, Violation
from crash.child_processes import Child, WriterForker, listen
from crash.scratch import lay_down, memory_folder, pick_up
from crash.verification import verify, verify_in_use
from crash.writer import Errand
from rota.core.errors import StoreUnavailable
from rota.stores.sqlite import SqliteStore

#: A writer that says nothing for so long hangs.
SILENCE_SECONDS: Final = 20.0
#: No answer may take this long, whichever process was just killed.
LONGEST_ANSWER_MILLISECONDS: Final = 2000.0
KILLS_PER_FILE: Final = 50
WRITERS: Final = 3


@dataclass(slots=True)
class Report:
    """What was done and what was found."""

    kills: int = 0
    kills_in_opening: int = 0
    verified: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    slowest_milliseconds: float = 0.0
    violations: list[Violation] = field(default_factory=list)
    seconds: float = 0.0

    def close(self, promises: Promises, found: list[Violation]) -> None:
        """Close the account of one file."""
        self.answers += promises.answers
        self.slowest_milliseconds = max([self.slowest_milliseconds, *promises.slowest.values()])
        self.violations += found

    def add(self, other: Report) -> None:
        """Add what another run did and found."""
        self.kills += other.kills
        self.kills_in_opening += other.kills_in_opening
        self.verified += other.verified
        self.answers += other.answers
        self.slowest_milliseconds = max(self.slowest_milliseconds, other.slowest_milliseconds)
        self.violations += other.violations
        self.seconds += other.seconds

    def __str__(self) -> str:
        return (
            f"{self.kills} kills ({self.kills_in_opening} before the first answer) in {self.seconds:.1f} s, "
            f"{self.answers.total()} answers {dict(self.answers)}, slowest {self.slowest_milliseconds:.0f} ms, "
            f"verified {self.verified} times, {len(self.violations)} violations"
        )


def kill_one(forker: WriterForker, folder: Path, kills: int, rng: random.Random) -> Report:
    """Kill one writer after another on one file."""
    report, promises, began = Report(), Promises(), time.monotonic()
    path = folder / "one.db"
    found: list[Violation] = []
    for generation in range(kills):
        errand = Errand(str(path), rng.getrandbits(32), generation=generation, unanswered=_unanswered(promises))
        child = forker.start(errand)
        answers = _let_live(child, promises, rng)
        child.kill()
        _take_last_words(child, promises)
        _expect(child.bury(), -signal.SIGKILL, promises)
        report.kills += 1
        report.kills_in_opening += not answers
        found = _judge_copy(path, promises)
        report.verified += 1
        if found:
            break
    report.close(promises, found)
    report.seconds = time.monotonic() - began
    return report


def _let_live(child: Child, promises: Promises, rng: random.Random) -> int:
    """Listen to a writer until the moment has come to kill it, and say how many answers it had got."""
    if rng.random() < 0.2:
        return sum(_take(promises, line) for _, line in listen([child], within=rng.uniform(0, 0.03)))
    wanted, answers = rng.randint(1, 100), 0
    for _, line in listen([child], within=SILENCE_SECONDS):
        answers += _take(promises, line)
        if answers >= wanted:
            break
    else:
        promises.take(["error", f"a writer fell silent after {answers} of {wanted} answers"])
    # A little further, into the midst of what comes next.
    return answers + sum(_take(promises, line) for _, line in listen([child], within=rng.uniform(0, 0.005)))


def kill_one_of_many(
    forker: WriterForker, folder: Path, kills: int, rng: random.Random, *, writers: int = WRITERS
) -> Report:
    """Keep several writers on one file, kill one of them at a time and start it again."""
    report, promises, began = Report(), Promises(), time.monotonic()
    path = folder / "many.db"

    def start(number: int, generation: int) -> Child:
        return forker.start(Errand(str(path), rng.getrandbits(32), number=number, generation=generation, tasks=4))

    children = [start(number, 0) for number in range(writers)]
    for generation in range(1, kills + 1):
        _hear_from_all(children, promises, rng.randint(5, 60))
        victim = rng.choice(children)
        victim.kill()
        _take_last_words(victim, promises)
        _expect(victim.bury(), -signal.SIGKILL, promises)
        report.kills += 1
        children[children.index(victim)] = start(victim.errand.number, generation)
        if rng.random() < 0.3:
            promises.violations = verify_in_use(path, promises, partial(_catch_up, children, promises))
            report.verified += 1
        if promises.violations:
            break
    _hear_from_all(children, promises, 50)
    for child in children:
        child.dismiss()
    for child in children:
        _take_last_words(child, promises)
        _expect(child.bury(), 0, promises)
    for verb, milliseconds in promises.slowest.items():
        if milliseconds > LONGEST_ANSWER_MILLISECONDS:
            promises.take(["error", f"an answer to {verb} took {milliseconds:.0f} ms"])
    report.close(promises, _judge_copy(path, promises))
    report.verified += 1
    report.seconds = time.monotonic() - began
    return report


def _hear_from_all(children: list[Child], promises: Promises, answers: int) -> None:
    """Listen until every writer has got so many answers more."""
    heard: Counter[Child] = Counter()
    for child, line in listen(children, within=SILENCE_SECONDS):
        heard[child] += _take(promises, line)
        if all(heard[one] >= answers for one in children):
            return
    silent = [child.errand.number for child in children if heard[child] < answers]
    promises.take(["error", f"writers {silent} got fewer than {answers} answers in {SILENCE_SECONDS:.0f} s"])


def _catch_up(children: list[Child], promises: Promises) -> None:
    """Take down all that has been said so far."""
    for _, line in listen(children, within=0):
        promises.take(line)


def _take_last_words(child: Child, promises: Promises) -> None:
    for _, line in listen([child], within=SILENCE_SECONDS):
        promises.take(line)
    if not child.has_ended:
        promises.take(["error", f"writer {child.errand.number} did not end within {SILENCE_SECONDS:.0f} s"])
        child.kill()


def _take(promises: Promises, line: Line) -> bool:
    """Take a line down, and say whether it is an answer."""
    promises.take(line)
    return bool(line[0] == "ok")


def _unanswered(promises: Promises) -> tuple[str, ...]:
    """Return a few of the claims whose answers were lost with their writer; from then on they count as answered."""
    lost = sorted(promises.unanswered)[-5:]
    promises.unanswered.clear()
    return tuple(lost)


def _expect(status: int, expected: int, promises: Promises) -> None:
    if status != expected:
        promises.take(["error", f"a writer ended with status {status} instead of {expected}"])


def _judge_copy(path: Path, promises: Promises) -> list[Violation]:
    """Verify a copy of the files, which no process has open: once as the store opens it, and once as it closes it."""
    with memory_folder() as folder:
        lay_down(pick_up(path), folder)
        return [*asyncio.run(_open_and_check(folder / path.name)), *verify(folder / path.name, promises)]


async def _open_and_check(path: Path) -> list[Violation]:
    try:
        store = await SqliteStore.open(path)
    except StoreUnavailable as error:
        return [Violation(Kind.DAMAGED, str(error))]
    try:
        await store.census()
        return [Violation(Kind.DAMAGED, finding) for finding in await store.check()]
    except StoreUnavailable as error:
        return [Violation(Kind.DAMAGED, str(error))]
    finally:
        await store.close()


def main(arguments: list[str] | None = None) -> int:
    """Kill writers, print what came of it, and give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m crash.kill", description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200, help="how many writers to kill, over both kinds (200)")
    parser.add_argument("--seed", type=int, default=None, help="repeats the choices, though not the timing")
    parser.add_argument("--folder", type=Path, default=None, help="where the files go (a temporary folder)")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    rng, left, failed = random.Random(seed), options.kills, 0
    ways: list[Callable[[WriterForker, Path, int, random.Random], Report]] = [kill_one, kill_one_of_many]
    totals = {way.__name__: Report() for way in ways}
    sys.stdout.write(f"SEED={seed}\n")
    with WriterForker() as forker:
        while left > 0:
            for way in ways:
                kills = min(KILLS_PER_FILE, left)
                with tempfile.TemporaryDirectory(prefix="rota-kill-", dir=options.folder) as folder:
                    report = way(forker, Path(folder), kills, rng)
                left -= report.kills
                failed += len(report.violations)
                totals[way.__name__].add(report)
                sys.stdout.write(f"{way.__name__}: {report}\n")
                sys.stdout.writelines(f"  {violation}\n" for violation in report.violations[:20])
                sys.stdout.flush()
    for name, total in totals.items():
        sys.stdout.write(f"total {name}: {total}\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())

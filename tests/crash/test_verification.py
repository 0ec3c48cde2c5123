"""The verification itself: each guarantee is violated once in a valid database, and must be detected."""

from __future__ import annotations

import asyncio
import copy
import random
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from crash.acknowledgements import Kind, Line, Promises, Violation
from crash.scratch import DATABASE, lay_down, memory_folder, pick_up
from crash.verification import read, verify, verify_in_use
from crash.workload import Identity, TickingClock, Workload
from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.ports.store import JobQuery, Store
from rota.stores.sqlite import SqliteStore


@dataclass(frozen=True, slots=True)
class Sound:
    """A database with a history of operations, and their acknowledgements."""

    image: dict[str, bytes]
    promises: Promises


@pytest.fixture(scope="module")
def sound() -> Sound:
    return asyncio.run(_made())


async def _made() -> Sound:
    promises, clock = Promises(), TickingClock()
    with memory_folder() as folder:
        store = await SqliteStore.open(folder / DATABASE, clock=clock)
        load = Workload(store, Identity(0, 0), promises.take, random.Random(7), clock, keys=30)
        await load.settle_in()
        while not await _has_all_that_can_be_harmed(store, promises):
            enough = promises.acknowledged + 300
            await load.run(4, partial(lambda enough: promises.acknowledged > enough, enough))
            # Before the look, not after it: it may take what was seen.
            await load.prune()
        # What is still to be claimed, waited for and lost.
        await load.submit_batch()
        await load.submit_keyed()
        await load.submit_workflow()
        await load.fire()
        await load.lead()
        await store.close()
        return Sound(pick_up(folder / DATABASE), promises)


async def _has_all_that_can_be_harmed(store: Store, promises: Promises) -> bool:
    heirs = await store.find(JobQuery(types=("heir",), states=(State.PENDING,)))
    parents = await store.get([heir.parent_id for heir in heirs if heir.parent_id is not None])
    ends = [await store.find(JobQuery(states=(state,))) for state in (State.COMPLETED, State.DEAD)]
    with_steps = await store.get([JobId(job_id) for (job_id, _), outcome in promises.steps.items() if outcome])
    pruned = (await store.census()).pruned.get(State.COMPLETED, 0)
    return all([*ends, parents, with_steps]) and len(promises.entries) > 3 and pruned > 10


@pytest.fixture
def path(sound: Sound) -> Iterator[Path]:
    with memory_folder() as folder:
        lay_down(sound.image, folder)
        yield folder / DATABASE


def _kinds(violations: list[Violation]) -> set[Kind]:
    return {violation.kind for violation in violations}


def _execute(path: Path, statement: str) -> int:
    """Change a database without the store, and return how many rows were changed."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    changed = connection.execute(statement).rowcount
    connection.close()
    return changed


def test_a_sound_database_is_found_sound(path: Path, sound: Sound) -> None:
    assert verify(path, sound.promises) == []
    assert verify_in_use(path, sound.promises, lambda: None) == []


_A_COPY = """
INSERT INTO rota_job (id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery,
    payload, schedule_id, fire_time, parent_id, idempotency_key)
SELECT id + 1000000000000, type, queue, priority, 'pending', turn, run_at, created_at, updated_at, max_attempts,
    delivery, payload, schedule_id, fire_time, parent_id, idempotency_key
FROM rota_job WHERE id = (the original)
"""


def _a_copy_of(original: str) -> str:
    """Submit a job once more, under another id."""
    return _A_COPY.replace("the original", original)


_AN_HEIR = "SELECT max(id) FROM rota_job WHERE state = 'pending' AND parent_id IN (SELECT id FROM rota_job)"


def _of_an_heir(statement: str) -> str:
    return statement.replace("an heir", _AN_HEIR)


HARM: dict[str, tuple[Kind, str]] = {
    "a pending job is gone": (
        Kind.LOST,
        "DELETE FROM rota_job WHERE id = (SELECT min(id) FROM rota_job WHERE state = 'pending' AND parent_id IS NULL)",
    ),
    "an end did not happen": (
        Kind.LOST,
        (
            "UPDATE rota_job SET state = 'pending', finished_at = NULL "
            "WHERE id = (SELECT min(id) FROM rota_job WHERE state = 'dead')"
        ),
    ),
    "an end happened under another fence": (
        Kind.LOST,
        "UPDATE rota_job SET fence = fence + 1 WHERE id = (SELECT min(id) FROM rota_job WHERE state = 'completed')",
    ),
    "a fence went back": (
        Kind.WENT_BACK,
        "UPDATE rota_job SET fence = 0, attempts = 0 WHERE id = (SELECT min(id) FROM rota_job WHERE fence > 0)",
    ),
    "a claim was served twice": (
        Kind.DOUBLED,
        (
            "UPDATE rota_job SET boot = 'again-' || (SELECT min(boot) FROM rota_job) "
            "WHERE id = (SELECT max(id) FROM rota_job WHERE state = 'pending')"
        ),
    ),
    "a key is forgotten": (
        Kind.LOST,
        "DELETE FROM rota_idempotency WHERE key = (SELECT min(key) FROM rota_idempotency)",
    ),
    "a key made two jobs": (Kind.DOUBLED, _a_copy_of("SELECT min(id) FROM rota_job WHERE idempotency_key IS NOT NULL")),
    "a key stands for a job that is not there": (
        Kind.HALF,
        "DELETE FROM rota_job WHERE id = (SELECT min(job_id) FROM rota_idempotency)",
    ),
    "a key stands for a job that does not have it": (
        Kind.HALF,
        "UPDATE rota_job SET idempotency_key = NULL WHERE id = (SELECT min(job_id) FROM rota_idempotency)",
    ),
    "a fire time is forgotten": (
        Kind.LOST,
        "DELETE FROM rota_occurrence WHERE fire_time = (SELECT max(fire_time) FROM rota_occurrence)",
    ),
    "a fire time made two jobs": (
        Kind.DOUBLED,
        _a_copy_of("SELECT max(id) FROM rota_job WHERE schedule_id IS NOT NULL"),
    ),
    "a fired job has no fire time": (
        Kind.HALF,
        (
            "UPDATE rota_occurrence SET job_id = NULL "
            "WHERE job_id = (SELECT max(id) FROM rota_job WHERE schedule_id IS NOT NULL)"
        ),
    ),
    "a fire time has no job": (
        Kind.HALF,
        "DELETE FROM rota_job WHERE id = (SELECT max(id) FROM rota_job WHERE schedule_id IS NOT NULL)",
    ),
    "a schedule did not move on": (
        Kind.HALF,
        "UPDATE rota_schedule SET next_fire_at = (SELECT max(fire_time) FROM rota_occurrence)",
    ),
    "a job has two heirs": (Kind.DOUBLED, _a_copy_of(_AN_HEIR)),
    "an heir is missing": (Kind.HALF, _of_an_heir("DELETE FROM rota_job WHERE id = (an heir)")),
    "an heir came before its parent's end": (
        Kind.HALF,
        _of_an_heir(
            "UPDATE rota_job SET state = 'pending', finished_at = NULL "
            "WHERE id = (SELECT parent_id FROM rota_job WHERE id = (an heir))"
        ),
    ),
    "a job is blocked by nothing": (
        Kind.HALF,
        "UPDATE rota_dependency SET met = 1 WHERE child = (SELECT max(id) FROM rota_job WHERE state = 'blocked')",
    ),
    "a job no longer waits for what has not ended": (
        Kind.HALF,
        "UPDATE rota_job SET state = 'pending' WHERE id = (SELECT max(id) FROM rota_job WHERE state = 'blocked')",
    ),
    "a job waits for what has ended": (
        Kind.HALF,
        (
            "UPDATE rota_dependency SET parent = (SELECT min(id) FROM rota_job "
            "WHERE state = 'completed') WHERE child = (SELECT max(id) FROM rota_job WHERE state = 'blocked')"
        ),
    ),
    "a step is forgotten": (
        Kind.LOST,
        (
            "DELETE FROM rota_step "
            "WHERE job_id = (SELECT min(id) FROM rota_job WHERE id IN (SELECT job_id FROM rota_step))"
        ),
    ),
    "a step has another outcome": (
        Kind.LOST,
        (
            "UPDATE rota_step SET outcome = 'none' "
            "WHERE outcome IS NOT NULL AND job_id = "
            "(SELECT min(rota_job.id) FROM rota_job JOIN rota_step ON job_id = rota_job.id)"
        ),
    ),
    "the last entry of the ledger is gone": (
        Kind.LOST,
        "DELETE FROM rota_ledger WHERE number = (SELECT max(number) FROM rota_ledger)",
    ),
    "an entry of the ledger is gone": (Kind.HALF, "DELETE FROM rota_ledger WHERE number = 2"),
    "an entry of the ledger was changed": (Kind.HALF, "UPDATE rota_ledger SET actor = 'nobody' WHERE number = 2"),
    "a term went back": (Kind.WENT_BACK, "UPDATE rota_leader SET term = term - 1"),
    "a job came out of nothing": (
        Kind.INVENTED,
        _a_copy_of("SELECT min(id) FROM rota_job WHERE type = 'plain' AND idempotency_key IS NULL"),
    ),
    "more jobs are counted as pruned than are gone": (Kind.HALF, "UPDATE rota_pruned SET count = count + 1000"),
    "fewer jobs are counted as pruned than are gone": (Kind.LOST, "UPDATE rota_pruned SET count = 1"),
}


@pytest.mark.parametrize("harm", HARM)
def test_harm_is_noticed(path: Path, sound: Sound, harm: str) -> None:
    kind, statement = HARM[harm]
    assert _execute(path, statement) > 0
    assert kind in _kinds(verify(path, sound.promises))


def test_a_torn_page_is_noticed(path: Path, sound: Sound) -> None:
    content = bytearray(path.read_bytes())
    content[4096 * 3 + 8 : 4096 * 3 + 520] = b"\xff" * 512
    path.write_bytes(content)
    assert _kinds(verify(path, sound.promises)) == {Kind.DAMAGED}


def test_a_file_that_is_no_database_is_noticed(path: Path, sound: Sound) -> None:
    path.write_bytes(b"Dear diary,\n" * 1000)
    assert _kinds(verify(path, sound.promises)) == {Kind.DAMAGED}


def test_an_empty_file_is_noticed(path: Path, sound: Sound) -> None:
    path.write_bytes(b"")
    assert _kinds(verify(path, sound.promises)) == {Kind.DAMAGED}


def test_while_a_database_is_in_use_unheard_of_jobs_are_no_harm(path: Path, sound: Sound) -> None:
    kind, statement = HARM["a job came out of nothing"]
    assert _execute(path, statement) > 0
    assert verify_in_use(path, sound.promises, lambda: None) == []
    assert kind in _kinds(verify(path, sound.promises))


def test_while_a_database_is_in_use_a_job_may_be_pruned_whose_end_we_hear_of_only_afterwards(
    path: Path, sound: Sound
) -> None:
    promises = copy.deepcopy(sound.promises)
    (pruned, *_) = promises.created - read(path).jobs.keys()
    promises.completing.discard(pruned)
    assert Kind.LOST in _kinds(verify_in_use(path, promises, lambda: None))
    assert verify_in_use(path, promises, lambda: promises.completing.add(pruned)) == []


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([["ok", 1, "insert", [["k", "created", 1]]], ["ok", 1, "insert", [["k", "created", 2]]]], Kind.DOUBLED),
        ([["ok", 1, "insert", [["k", "created", 1]]], ["ok", 1, "insert", [["k", "replayed", 2]]]], Kind.DOUBLED),
        ([["ok", 1, "claim", "a", [[1, 1]]], ["ok", 1, "claim", "b", [[1, 1]]]], Kind.DOUBLED),
        ([["ok", 1, "settle", [[1, 1, "completed", None]]], ["ok", 1, "settle", [[1, 1, "dead", None]]]], Kind.DOUBLED),
        ([["ok", 1, "settle", [[1, 1, "dead", None]]], ["ok", 1, "settle", [[1, 2, "pending", None]]]], Kind.DOUBLED),
        ([["ok", 1, "fire", 1, [[60, 1]]], ["ok", 1, "fire", 1, [[60, 2]]]], Kind.DOUBLED),
        ([["ok", 1, "step", 1, "s", "sent"], ["ok", 1, "step", 1, "s", "not sent"]], Kind.DOUBLED),
        ([["error", "StoreUnavailable: database is locked"]], Kind.DISTURBED),
    ],
)
def test_promises_that_contradict_each_other_are_noticed(lines: list[Line], kind: Kind) -> None:
    promises = Promises()
    for line in lines:
        assert promises.violations == []
        promises.take(line)
    assert _kinds(promises.violations) == {kind}


@pytest.mark.parametrize(
    "lines",
    [
        [["ok", 1, "insert", [["k", "created", 1]]], ["ok", 1, "insert", [["k", "replayed", 1]]]],
        [["ok", 1, "insert", [["k", "created", 1]]], ["ok", 1, "insert", [["k", "key_reused", 1]]]],
        [["ok", 1, "claim", "a", [[1, 1]]], ["ok", 1, "claim", "a", [[1, 1]]], ["ok", 1, "claim", "b", [[1, 2]]]],
        [["ok", 1, "settle", [[1, 2, "dead", None]]], ["ok", 1, "settle", [[1, 1, "retrying", None]]]],
        [["ok", 1, "step", 1, "s", None], ["ok", 1, "step", 1, "s", "sent"], ["ok", 1, "step", 1, "s", None]],
    ],
)
def test_promises_that_agree_are_no_harm(lines: list[Line]) -> None:
    promises = Promises()
    for line in lines:
        promises.take(copy.copy(line))
    assert promises.violations == []


def test_a_line_that_nobody_wrote_is_refused() -> None:
    with pytest.raises(ValueError, match="not a line of a workload"):
        Promises().take(["perhaps", 1])

"""Verification: reads a database file with bare SQL and compares it with what was acknowledged.

It imports nothing of Rota, so that a bug there cannot hide itself here; the one exception is the formula by which the
ledger's entries are chained, which is not in question here. Everything is read in one snapshot, so that a file in use
can be verified too (`verify_in_use`); then only what was promised before is asked for.
"""

from __future__ import annotations

import copy
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from crash.acknowledgements import AGAIN, FINAL_STATES, Kind, Promises, Violation
from rota.core.ledger import LedgerEntry
from rota.core.time import from_micros


@dataclass(frozen=True, slots=True)
class StoredJob:
    """The fields of a job that are verified."""

    state: str
    fence: int
    boot: str | None
    key: str | None
    parent: int | None
    schedule: int | None
    fire_time: int | None
    has_heir: int

    @property
    def is_finished(self) -> bool:
        return self.state in FINAL_STATES


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a database that acknowledgements are about."""

    findings: tuple[str, ...]
    jobs: dict[int, StoredJob]
    keys: dict[str, int]
    waits: tuple[tuple[int, int], ...]
    occurrences: dict[tuple[int, int], int | None]
    next_fire_times: dict[int, int]
    steps: dict[tuple[int, str], str | None]
    terms: dict[str, int]
    entries: tuple[tuple[Any, ...], ...]
    pruned: int


_JOBS: Final = """
SELECT id, state, fence, boot, idempotency_key, parent_id, schedule_id, fire_time, on_success IS NOT NULL FROM rota_job
"""
_ENTRIES: Final = "SELECT digest, number, at, actor, action, target, origin, detail FROM rota_ledger ORDER BY number"


def read(path: Path) -> Contents:
    """Read what is in a file, as of one moment."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        rows = _rows_of(connection)
        connection.execute("BEGIN")
        return Contents(
            findings=tuple(text for (text,) in rows("PRAGMA integrity_check") if text != "ok"),
            jobs={row[0]: StoredJob(*row[1:]) for row in rows(_JOBS)},
            keys=dict(rows("SELECT key, job_id FROM rota_idempotency")),
            waits=tuple(rows("SELECT parent, child FROM rota_dependency WHERE met = 0")),
            occurrences={
                (schedule, fire_time): job
                for schedule, fire_time, job in rows("SELECT schedule_id, fire_time, job_id FROM rota_occurrence")
            },
            next_fire_times=dict(rows("SELECT id, next_fire_at FROM rota_schedule")),
            steps={(job, key): outcome for job, key, outcome in rows("SELECT job_id, key, outcome FROM rota_step")},
            terms=dict(rows("SELECT name, term FROM rota_leader")),
            entries=tuple(rows(_ENTRIES)),
            pruned=rows("SELECT coalesce(sum(count), 0) FROM rota_pruned")[0][0],
        )
    finally:
        connection.close()


def _rows_of(connection: sqlite3.Connection) -> Callable[[str], list[Any]]:
    return lambda sql: connection.execute(sql).fetchall()


def verify(path: Path, promises: Promises) -> list[Violation]:
    """Return the violated guarantees of a file."""
    try:
        contents = read(path)
    except sqlite3.Error as error:
        return [*promises.violations, Violation(Kind.DAMAGED, f"{path.name} cannot be read: {error}")]
    return compare(contents, promises)


def verify_in_use(path: Path, promises: Promises, catch_up: Callable[[], None]) -> list[Violation]:
    """Return the violated guarantees of a file that other processes are writing to.

    What was acknowledged before the file is read must be there. What was asked for before we read it may have been
    done, and we may hear of that only now: `catch_up` takes down what has been said meanwhile. Nothing is said about
    jobs of which we have not heard at all.
    """
    before = copy.deepcopy(promises)
    try:
        contents = read(path)
    except sqlite3.Error as error:
        return [*promises.violations, Violation(Kind.DAMAGED, f"{path.name} cannot be read: {error}")]
    catch_up()
    before.completing |= promises.completing
    before.heirs = promises.heirs
    return compare(contents, before, is_in_use=True)


def compare(contents: Contents, promises: Promises, *, is_in_use: bool = False) -> list[Violation]:
    """Return which acknowledgements the content contradicts."""
    if contents.findings:
        return [*promises.violations, *(Violation(Kind.DAMAGED, finding) for finding in contents.findings)]
    checks = [_jobs, _ends, _keys, _fences, _claims, _fire_times, _heirs, _waits, _steps, _ledger, _terms]
    if not is_in_use:
        checks.append(_conservation)
    return [*promises.violations, *(found for check in checks for found in check(contents, promises))]


def _is_there(job_id: int, contents: Contents, promises: Promises) -> bool:
    """Whether a job is there, or may have been pruned after its success."""
    return job_id in contents.jobs or (job_id in promises.completing and contents.pruned > 0)


def _jobs(contents: Contents, promises: Promises) -> Iterator[Violation]:
    for job_id in sorted(promises.created):
        if not _is_there(job_id, contents, promises):
            yield Violation(Kind.LOST, f"job {job_id} was acknowledged and is not there")


def _ends(contents: Contents, promises: Promises) -> Iterator[Violation]:
    for job_id, (fence, state) in promises.finals.items():
        job = contents.jobs.get(job_id)
        if job is not None and (job.fence, job.state) != (fence, state):
            text = f"job {job_id} ended as {state} under fence {fence}, and is {job.state} under {job.fence}"
            yield Violation(Kind.LOST, text)


def _keys(contents: Contents, promises: Promises) -> Iterator[Violation]:
    for key, job_id in promises.keys.items():
        if contents.keys.get(key) != job_id:
            yield Violation(Kind.LOST, f"key {key} stood for {job_id}, and stands for {contents.keys.get(key)}")
    uses = Counter(job.key for job in contents.jobs.values() if job.key is not None)
    for key, count in uses.items():
        if count > 1:
            yield Violation(Kind.DOUBLED, f"key {key} made {count} jobs")
    for key, job_id in contents.keys.items():
        if job_id not in contents.jobs:
            yield Violation(Kind.HALF, f"key {key} stands for job {job_id}, which is not there")
        elif contents.jobs[job_id].key != key:
            yield Violation(Kind.HALF, f"key {key} stands for job {job_id}, which has key {contents.jobs[job_id].key}")


def _fences(contents: Contents, promises: Promises) -> Iterator[Violation]:
    for job_id, fence in promises.fences.items():
        job = contents.jobs.get(job_id)
        if job is not None and job.fence < fence:
            yield Violation(Kind.WENT_BACK, f"job {job_id} had fence {fence}, and has {job.fence}")


def _claims(contents: Contents, promises: Promises) -> Iterator[Violation]:
    """A claim that is repeated, since its answer was lost, gives what it gave the first time, and nothing else."""
    del promises
    boots = {job.boot for job in contents.jobs.values() if job.boot is not None}
    for boot in boots:
        if boot.startswith(AGAIN) and boot.removeprefix(AGAIN) in boots:
            yield Violation(Kind.DOUBLED, f"claim {boot.removeprefix(AGAIN)} got jobs, and others when it was repeated")


def _fire_times(contents: Contents, promises: Promises) -> Iterator[Violation]:
    for occurrence, job_id in promises.occurrences.items():
        if contents.occurrences.get(occurrence) != job_id:
            text = f"{occurrence} made job {job_id}, and is said to have made {contents.occurrences.get(occurrence)}"
            yield Violation(Kind.LOST, text)
    fired = {job_id: (job.schedule, job.fire_time) for job_id, job in contents.jobs.items() if job.schedule is not None}
    for fire, count in Counter(fired.values()).items():
        if count > 1:
            yield Violation(Kind.DOUBLED, f"{fire} made {count} jobs")
    recorded = {job_id: occurrence for occurrence, job_id in contents.occurrences.items() if job_id is not None}
    for job_id in fired.keys() - recorded.keys():
        yield Violation(Kind.HALF, f"job {job_id} was fired by {fired[job_id]}, of which nothing is recorded")
    for job_id, (schedule, fire_time) in recorded.items():
        if not _is_there(job_id, contents, promises):
            yield Violation(Kind.HALF, f"{(schedule, fire_time)} is said to have made {job_id}, which is not there")
        if schedule not in contents.next_fire_times or contents.next_fire_times[schedule] <= fire_time:
            text = f"schedule {schedule} fired for {fire_time} and is due at {contents.next_fire_times.get(schedule)}"
            yield Violation(Kind.HALF, text)


def _heirs(contents: Contents, promises: Promises) -> Iterator[Violation]:
    """A job's end and its heir are one."""
    children = Counter(job.parent for job in contents.jobs.values() if job.parent is not None)
    for job_id, job in contents.jobs.items():
        if children[job_id] > 1:
            yield Violation(Kind.DOUBLED, f"job {job_id} has {children[job_id]} heirs")
        if job.state == "completed" and job.has_heir and not children[job_id]:
            heirs = promises.heirs.get(job_id, set())
            if not (heirs & promises.completing and contents.pruned):
                yield Violation(Kind.HALF, f"job {job_id} is completed and its heir is not there")
        parent = contents.jobs.get(job.parent) if job.parent is not None else None
        if parent is not None and not parent.is_finished:
            yield Violation(Kind.HALF, f"job {job_id} is the heir of {job.parent}, which is {parent.state}")


def _waits(contents: Contents, promises: Promises) -> Iterator[Violation]:
    """A job's end and the release of those that wait for it are one."""
    del promises
    waiting = {child for _, child in contents.waits}
    for job_id, job in contents.jobs.items():
        if job.state == "blocked" and job_id not in waiting:
            yield Violation(Kind.HALF, f"job {job_id} is blocked and waits for nothing")
    for parent, child in contents.waits:
        if parent not in contents.jobs or contents.jobs[parent].is_finished:
            yield Violation(Kind.HALF, f"job {child} still waits for job {parent}, which has ended")
        elif child not in contents.jobs or contents.jobs[child].state not in {"blocked", "cancelled"}:
            yield Violation(Kind.HALF, f"job {child} no longer waits for job {parent}, which has not ended")


def _steps(contents: Contents, promises: Promises) -> Iterator[Violation]:
    for (job_id, key), outcome in promises.steps.items():
        if job_id not in contents.jobs:
            continue  # lost or pruned: verified elsewhere
        if (job_id, key) not in contents.steps:
            yield Violation(Kind.LOST, f"step {key} of job {job_id} is not there")
        elif outcome is not None and contents.steps[job_id, key] != outcome:
            text = f"step {key} of job {job_id} ended with {outcome}, and shows {contents.steps[job_id, key]}"
            yield Violation(Kind.LOST, text)


def _ledger(contents: Contents, promises: Promises) -> Iterator[Violation]:
    previous = ""
    for position, (digest, number, at, *answer) in enumerate(contents.entries, start=1):
        if number != position:
            yield Violation(Kind.HALF, f"entry {number} of the ledger is at place {position}")
        if LedgerEntry(*answer).chained(number, from_micros(at), previous).digest != digest:
            yield Violation(Kind.HALF, f"entry {number} of the ledger does not follow from the one before")
        previous = digest
    details = Counter(entry[-1] for entry in contents.entries)
    for detail in promises.entries:
        if not details[detail]:
            yield Violation(Kind.LOST, f"entry {detail} of the ledger is not there")


def _terms(contents: Contents, promises: Promises) -> Iterator[Violation]:
    for name, term in promises.terms.items():
        if contents.terms.get(name, 0) < term:
            yield Violation(Kind.WENT_BACK, f"lead {name} was in term {term}, and is in {contents.terms.get(name)}")


def _conservation(contents: Contents, promises: Promises) -> Iterator[Violation]:
    """Submitted = counted + pruned, as closely as unanswered requests allow to know."""
    for job_id in sorted(contents.jobs.keys() - promises.tried):
        yield Violation(Kind.INVENTED, f"job {job_id} is there and nobody submitted it")
    surely_gone = len(promises.created - contents.jobs.keys())
    perhaps_gone = len((promises.tried & promises.completing) - contents.jobs.keys())
    text = f"{contents.pruned} jobs are counted as pruned, and {surely_gone} to {perhaps_gone} are gone"
    if contents.pruned < surely_gone:
        yield Violation(Kind.LOST, text)
    if contents.pruned > perhaps_gone:
        yield Violation(Kind.HALF, text)

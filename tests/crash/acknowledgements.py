"""Requests to a store and what it acknowledged, collected from the log lines of a workload.

A line is a JSON list, written to a pipe, so that it survives the death of the process that writes it:

- ``["try", verb, ...]``: about to be sent. Without an answer it is unknown whether it took effect.
- ``["ok", milliseconds, verb, ...]``: the store has acknowledged it. From here on it must be durable.
- ``["error", text]``: an unexpected error.

Nothing here reads a database; acknowledgements that contradict each other are found here already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

Line = list[Any]

#: Marks the boot of a worker that repeats a claim; the first time it is the name of the claim alone.
AGAIN: Final = "again-"
FINAL_STATES: Final = frozenset({"completed", "dead", "cancelled"})


class Kind(StrEnum):
    """What is wrong."""

    #: The file cannot be opened, or its pages contradict each other.
    DAMAGED = "damaged"
    #: Something acknowledged is not there.
    LOST = "lost"
    #: Something that must be once is twice.
    DOUBLED = "doubled"
    #: A number that only grows has shrunk.
    WENT_BACK = "went back"
    #: Half of something that is one.
    HALF = "half"
    #: Something that was not requested.
    INVENTED = "invented"
    #: A call failed that had no reason to, or in the wrong way, or took far too long.
    DISTURBED = "disturbed"


@dataclass(frozen=True, slots=True)
class Violation:
    """One violated guarantee, in a sentence."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(slots=True)
class Promises:
    """All requests and acknowledgements so far."""

    #: Ids of jobs that may exist, and of those that must.
    tried: set[int] = field(default_factory=set)
    created: set[int] = field(default_factory=set)
    #: What an idempotency key stands for.
    keys: dict[str, int] = field(default_factory=dict)
    #: The greatest fence given out for a job, and which claim got which.
    fences: dict[int, int] = field(default_factory=dict)
    claims: dict[tuple[int, int], str] = field(default_factory=dict)
    #: Claims that were sent and not answered.
    unanswered: set[str] = field(default_factory=set)
    #: Jobs that ended: under which fence, in which state.
    finals: dict[int, tuple[int, str]] = field(default_factory=dict)
    #: Jobs that were to be completed: only those may be pruned.
    completing: set[int] = field(default_factory=set)
    #: The jobs that may have been made at a job's end.
    heirs: dict[int, set[int]] = field(default_factory=dict)
    #: Which job a fire time made.
    occurrences: dict[tuple[int, int], int] = field(default_factory=dict)
    steps: dict[tuple[int, str], str | None] = field(default_factory=dict)
    terms: dict[str, int] = field(default_factory=dict)
    entries: set[str] = field(default_factory=set)
    violations: list[Violation] = field(default_factory=list)
    #: How many answers there were, by verb, and how long the slowest took.
    answers: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)

    def take(self, line: Line) -> None:
        """Take one line down."""
        match line:
            case ["try", str(verb), *rest]:
                getattr(self, f"_try_{verb}", _nothing)(*rest)
            case ["ok", float() | int() as milliseconds, str(verb), *rest]:
                self.answers[verb] += 1
                self.slowest[verb] = max(self.slowest.get(verb, 0.0), milliseconds)
                getattr(self, f"_ok_{verb}", _nothing)(*rest)
            case ["error", str(text)]:
                self._complain(Kind.DISTURBED, text)
            case _:
                raise ValueError(f"not a line of a workload: {line!r}")

    @property
    def acknowledged(self) -> int:
        """How many answers there were."""
        return self.answers.total()

    def _complain(self, kind: Kind, text: str) -> None:
        self.violations.append(Violation(kind, text))

    def _try_insert(self, ids: Iterable[int]) -> None:
        self.tried.update(ids)

    def _ok_insert(self, answers: Iterable[tuple[str | None, str, int]]) -> None:
        for key, receipt, job_id in answers:
            if receipt in {"created", "replayed"}:
                self.created.add(job_id)
                if key is not None and self.keys.setdefault(key, job_id) != job_id:
                    self._complain(Kind.DOUBLED, f"key {key} was answered with {self.keys[key]} and with {job_id}")

    def _try_claim(self, claim_id: str) -> None:
        self.unanswered.add(claim_id)

    def _ok_claim(self, claim_id: str, leases: Iterable[tuple[int, int]]) -> None:
        self.unanswered.discard(claim_id)
        for job_id, fence in leases:
            if self.claims.setdefault((job_id, fence), claim_id) != claim_id:
                other = self.claims[job_id, fence]
                self._complain(Kind.DOUBLED, f"job {job_id}: claims {other} and {claim_id} both hold fence {fence}")
            self.fences[job_id] = max(self.fences.get(job_id, 0), fence)

    def _try_settle(self, settlements: Iterable[tuple[int, int, str, int | None]]) -> None:
        for job_id, _, target, heir in settlements:
            if target == "completed":
                self.completing.add(job_id)
            if heir is not None:
                self.tried.add(heir)
                self.heirs.setdefault(job_id, set()).add(heir)

    def _ok_settle(self, settlements: Iterable[tuple[int, int, str, int | None]]) -> None:
        for job_id, fence, target, heir in settlements:
            # The lines of several writers come in any order: what is older than the end is no contradiction to it.
            ended_under, ended_as = self.finals.get(job_id, (fence, None))
            if ended_as is not None and (target in FINAL_STATES or fence > ended_under):
                self._complain(Kind.DOUBLED, f"job {job_id} ended as {ended_as} and was then settled as {target}")
            self.fences[job_id] = max(self.fences.get(job_id, 0), fence)
            if target in FINAL_STATES:
                self.finals[job_id] = (fence, target)
            if heir is not None:
                self.created.add(heir)

    def _try_fire(self, ids: Iterable[int]) -> None:
        self.tried.update(ids)

    def _ok_fire(self, schedule_id: int, made: Iterable[tuple[int, int]]) -> None:
        for fire_time, job_id in made:
            self.created.add(job_id)
            if self.occurrences.setdefault((schedule_id, fire_time), job_id) != job_id:
                self._complain(Kind.DOUBLED, f"schedule {schedule_id} fired twice for {fire_time}")

    def _ok_step(self, job_id: int, key: str, outcome: str | None) -> None:
        known = self.steps.get((job_id, key))
        if known is not None and outcome is not None and known != outcome:
            self._complain(Kind.DOUBLED, f"step {key} of job {job_id} ended with {known} and with {outcome}")
        self.steps[job_id, key] = outcome or known

    def _ok_lead(self, name: str, term: int) -> None:
        self.terms[name] = max(self.terms.get(name, 0), term)

    def _ok_record(self, detail: str) -> None:
        self.entries.add(detail)


def _nothing(*_: object) -> None:
    """Some verbs acknowledge nothing that could be checked later."""

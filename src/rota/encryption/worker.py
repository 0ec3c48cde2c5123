"""Encryption on the worker's side: what attempts report is encrypted, and what they take from other jobs is decrypted.

Payloads are decrypted by the worker's intake, which also handles jobs that cannot be decrypted. The kind of an error
stays readable, and a keyed digest of its cause, so that dead letters can be grouped without the key.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from rota.core.envelope import MARK, bound_to_job, is_encrypted
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.outcome import Failed, Lost, Outcome, Succeeded, Unknown
from rota.core.settlement import JobError
from rota.core.step import Step, StepKind
from rota.core.waiting import Emission, Emitted, Wait
from rota.encryption.cipher import RESULT, Cipher, opened_within
from rota.encryption.jobs import decrypted_event, encrypted_emission, encrypted_template
from rota.ports.caller_tx import CallerTransaction, MakeJobs
from rota.ports.client import AttemptReport, InputSource, StepKeeper, WorkSource
from rota.ports.store import Inserted

#: Errors that Rota itself found before a handler started: their messages say nothing about the payload.
CLEAR_KINDS: Final = frozenset({"DecryptionFailed", "UnknownType"})
#: The longest text, in bytes, whose envelope the API accepts as a message, traceback, progress or log.
_LONGEST_TEXT: Final = 45_000


class EncryptedSource:
    """A `WorkSource` that encrypts results, errors, progress and log lines."""

    def __init__(self, source: WorkSource, cipher: Cipher) -> None:
        self._source = source
        self._cipher = cipher

    async def claim(self, claim: Claim, *, wait: timedelta = timedelta(0)) -> Sequence[Job]:
        return await self._source.claim(claim, wait=wait)

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        return await self._source.renew([self._renewal(renewal) for renewal in renewals])

    async def settle(self, reports: Sequence[AttemptReport]) -> Sequence[JobId]:
        return await self._source.settle([self._report(report) for report in reports])

    def _renewal(self, renewal: Renewal) -> Renewal:
        if renewal.progress is None and renewal.log_tail is None:
            return renewal
        progress = self._text(renewal.progress, "progress", renewal.job_id)
        return replace(renewal, progress=progress, log_tail=self._text(renewal.log_tail, "log", renewal.job_id))

    def _report(self, report: AttemptReport) -> AttemptReport:
        outcome = self._outcome(report.outcome, report.job_id)
        return replace(
            report,
            outcome=outcome,
            log_tail=self._text(report.log_tail, "log", report.job_id),
            progress=self._text(report.progress, "progress", report.job_id),
        )

    def _outcome(self, outcome: Outcome, job_id: JobId) -> Outcome:
        match outcome:
            case Succeeded(result):
                return Succeeded(self._cipher.encrypt(result, RESULT, bound_to_job(job_id)))
            case Failed() | Unknown():
                return replace(outcome, error=self._error(outcome.error, job_id))
            case Lost(error) if error is not None:
                return Lost(self._error(error, job_id))
            case _:
                return outcome

    def _error(self, error: JobError, job_id: JobId) -> JobError:
        if error.kind in CLEAR_KINDS:
            return error
        cause = self._cipher.digest(error.cause.encode("utf-8", "replace")).hex()
        message = self._text(error.message, "error", job_id, digest=cause) or ""
        return JobError(error.kind, message, self._text(error.traceback, "traceback", job_id) or "")

    def _text(self, text: str | None, field: str, job_id: JobId, *, digest: str = "") -> str | None:
        if text is None or (text == "" and not digest):
            return text
        end = text.encode("utf-8", "surrogatepass")[-_LONGEST_TEXT:].decode("utf-8", "ignore")
        return self._cipher.encrypt(end, field, bound_to_job(job_id), digest=digest)


class EncryptedSteps:
    """A `StepKeeper` that encrypts the results of steps."""

    def __init__(self, steps: StepKeeper, cipher: Cipher) -> None:
        self._steps = steps
        self._cipher = cipher

    async def intend(self, job_id: JobId, fence: int, key: str) -> tuple[Step, bool] | None:
        answer = await self._steps.intend(job_id, fence, key)
        return None if answer is None else (decrypted_step(self._cipher, answer[0]), answer[1])

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> Step | None:
        sealed = encrypted_outcome(self._cipher, job_id, key, outcome)
        step = await self._steps.conclude(job_id, fence, key, sealed)
        return None if step is None else decrypted_step(self._cipher, step)

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        return await self._steps.withdraw(job_id, fence, key)

    async def begin_wait(self, job_id: JobId, fence: int, wait: Wait) -> Step | None:
        child = None if wait.child is None else encrypted_template(self._cipher, wait.child)
        step = await self._steps.begin_wait(job_id, fence, replace(wait, child=child))
        return None if step is None else decrypted_wait(self._cipher, step)


class EncryptedCallerTransaction:
    """A `CallerTransaction` of a handler that encrypts the results of steps."""

    def __init__(self, transaction: CallerTransaction, cipher: Cipher) -> None:
        self._transaction = transaction
        self._cipher = cipher

    async def insert(self, make: MakeJobs, *, bound: int | None = None) -> Sequence[Inserted]:
        return await self._transaction.insert(make, bound=bound)

    async def step(self, job_id: JobId, key: str) -> Step | None:
        step = await self._transaction.step(job_id, key)
        return None if step is None else decrypted_step(self._cipher, step)

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> tuple[Step, bool] | None:
        sealed = encrypted_outcome(self._cipher, job_id, key, outcome)
        written = await self._transaction.conclude(job_id, fence, key, sealed)
        return None if written is None else (decrypted_step(self._cipher, written[0]), written[1])

    async def emit(self, emission: Emission) -> Emitted:
        return await self._transaction.emit(encrypted_emission(self._cipher, emission))


def encrypted_outcome(cipher: Cipher, job_id: JobId, key: str, outcome: str) -> str:
    return cipher.encrypt(outcome, f"step {key}", bound_to_job(job_id))


def decrypted_step(cipher: Cipher, step: Step) -> Step:
    """Decrypt the result of a step; one that an operator has entered is not encrypted."""
    if step.outcome is None or not is_encrypted(step.outcome):
        return step
    return replace(step, outcome=cipher.decrypt(step.outcome, f"step {step.key}", (bound_to_job(step.job_id),)))


def decrypted_wait(cipher: Cipher, step: Step) -> Step:
    """Decrypt the outcome of a wait: the payload of an event, or the end of a child job."""
    if step.outcome is None or MARK not in step.outcome.replace('\\"', '"'):
        return step
    if step.kind is StepKind.EVENT:
        return replace(step, outcome=decrypted_event(cipher, step.subject or "", step.outcome))
    return replace(step, outcome=json.dumps(opened_within(cipher, json.loads(step.outcome))))


class EncryptedInputs:
    """An `InputSource` that decrypts the results and failures of other jobs."""

    def __init__(self, inputs: InputSource, cipher: Cipher) -> None:
        self._inputs = inputs
        self._cipher = cipher

    async def input_of(self, job_id: JobId, fence: int) -> str | None:
        text = await self._inputs.input_of(job_id, fence)
        if text is None or MARK not in text.replace('\\"', '"'):
            return text
        # Which jobs a job follows is known to the store only, so the binding to them cannot be checked here.
        return json.dumps(opened_within(self._cipher, json.loads(text)))

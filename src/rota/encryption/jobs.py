"""Encryption of jobs on the submitter's side: payloads when they are submitted, results and errors when they are read.

A payload is bound to its job by the job's id, which the submitter makes. The payload of a follow-up job or a schedule
is bound to the job type, since the id of its job does not exist yet.

An idempotency key is stored with a hash of the request. With encryption that is a keyed hash of the plain request, made
here: it does not depend on the nonce, and a payload cannot be found by guessing. A repetition after a rotation has
another keyed hash, so a reused key is compared under the other keys as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from rota.core.bulk import UniformJobs
from rota.core.envelope import bound_to_job, bound_to_type, is_encrypted
from rota.core.errors import DecryptionFailed, KeyMissing, KeyReused, StoreUnavailable
from rota.core.graph import NewWorkflow, Node, StoredWorkflow, WorkflowId
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.settlement import JobError
from rota.core.submission import NewJob, Template
from rota.core.waiting import Emission, Emitted
from rota.encryption.cipher import PAYLOAD, Cipher
from rota.encryption.keys import Key
from rota.ports.caller_tx import MakeJobs
from rota.ports.client import ActionResult, Actor, Control, NodeResult, WorkflowReceipt
from rota.ports.store import AllCreated, Census, Inserted, JobQuery, Receipt

Submit = Callable[[Sequence[NewJob]], Coroutine[Any, Any, Sequence[Inserted]]]
#: How often other ids are tried.
MOST_TRIES: Final = 10
#: The field of an event's payload in its envelope.
_EVENT: Final = "event"
_REFUSED: Final = (Receipt.ID_TAKEN, Receipt.KEY_REUSED)


def encrypted_jobs(cipher: Cipher, jobs: Sequence[NewJob], key: Key | None = None) -> Sequence[NewJob]:
    """Encrypt the payloads of new jobs; `key` makes the keyed hash of their requests, by default the first key."""
    if type(jobs) is UniformJobs and jobs.model.idempotency is None:
        payloads = [_payload(cipher, text, job_id) for text, job_id in zip(jobs.payloads, jobs.ids, strict=True)]
        return UniformJobs(_with_follow_ups(cipher, jobs.model), jobs.ids, payloads)
    return [_encrypted_job(cipher, job, key) for job in jobs]


def _encrypted_job(cipher: Cipher, job: NewJob, key: Key | None) -> NewJob:
    job = replace(_with_follow_ups(cipher, job), payload=_payload(cipher, job.payload, job.id))
    if job.idempotency is None:
        return job
    request = cipher.digest(job.idempotency.request, key)
    return replace(job, idempotency=replace(job.idempotency, request=request))


def _payload(cipher: Cipher, text: str, job_id: JobId) -> str:
    return cipher.encrypt(text, PAYLOAD, bound_to_job(job_id))


def _with_follow_ups(cipher: Cipher, job: NewJob) -> NewJob:
    if job.on_success is None and job.on_failure is None:
        return job
    return replace(
        job,
        on_success=None if job.on_success is None else encrypted_template(cipher, job.on_success),
        on_failure=None if job.on_failure is None else encrypted_template(cipher, job.on_failure),
    )


def encrypted_template(cipher: Cipher, template: Template) -> Template:
    """Encrypt the payload of a template, and those of its follow-ups."""
    return replace(
        template,
        payload=cipher.encrypt(template.payload, PAYLOAD, bound_to_type(template.type)),
        on_success=None if template.on_success is None else encrypted_template(cipher, template.on_success),
        on_failure=None if template.on_failure is None else encrypted_template(cipher, template.on_failure),
    )


def encrypted_emission(cipher: Cipher, emission: Emission) -> Emission:
    """Encrypt the payload of an event, bound to its name."""
    return replace(emission, payload=cipher.encrypt(emission.payload, _EVENT, emission.name))


def decrypted_event(cipher: Cipher, name: str, payload: str) -> str:
    """Decrypt the payload of an event; one that was emitted without keys is not encrypted."""
    return cipher.decrypt(payload, _EVENT, (name,)) if is_encrypted(payload) else payload


def encrypted_form(cipher: Cipher, form: dict[str, Any], job_id: str | None) -> dict[str, Any]:
    """Encrypt a submission in the form of the HTTP API; without an id, of a follow-up job or a schedule."""
    payload = json.dumps(form.get("payload"))
    bound_to = bound_to_type(str(form.get("type", "default"))) if job_id is None else job_id
    changed = {**form, "payload": json.loads(cipher.encrypt(payload, PAYLOAD, bound_to))}
    for name in ("on_success", "on_failure"):
        if isinstance(form.get(name), dict):
            changed[name] = encrypted_form(cipher, form[name], None)
    if job_id is None:
        return changed
    changed["id"] = job_id
    if form.get("idempotency_key") is not None and form.get("idempotency_fingerprint") is None:
        plain = json.dumps(form, sort_keys=True).encode()
        changed["idempotency_fingerprint"] = cipher.digest(plain).hex()
    return changed


def encrypting_submit(submit: Submit, cipher: Cipher, fresh_id: Callable[[], JobId]) -> Submit:
    """Make a `submit` that encrypts. It suspends only where the given one does."""

    async def encrypt_and_submit(jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        answers = await submit(encrypted_jobs(cipher, jobs))
        if type(answers) is AllCreated or not any(answer.receipt in _REFUSED for answer in answers):
            return answers
        mended = list(answers)
        await _take_other_ids(submit, cipher, jobs, mended, fresh_id)
        await _compare_under_other_keys(submit, cipher, jobs, mended)
        return mended

    return encrypt_and_submit


async def _take_other_ids(
    submit: Submit, cipher: Cipher, jobs: Sequence[NewJob], answers: list[Inserted], fresh_id: Callable[[], JobId]
) -> None:
    """Submit jobs again whose ids were taken: only here their payloads can be bound to other ids."""
    for _ in range(MOST_TRIES):
        places = [place for place, answer in enumerate(answers) if answer.receipt is Receipt.ID_TAKEN]
        if not places:
            return
        again = [replace(jobs[place], id=fresh_id()) for place in places]
        for place, answer in zip(places, await submit(encrypted_jobs(cipher, again)), strict=True):
            answers[place] = answer
    raise StoreUnavailable("no free id was found; is this host's clock far behind the others'?")


async def _compare_under_other_keys(
    submit: Submit, cipher: Cipher, jobs: Sequence[NewJob], answers: list[Inserted]
) -> None:
    for key in cipher.keys[1:]:
        places = [place for place, answer in enumerate(answers) if answer.receipt is Receipt.KEY_REUSED]
        if not places:
            return
        again = encrypted_jobs(cipher, [jobs[place] for place in places], key)
        for place, answer in zip(places, await submit(again), strict=True):
            answers[place] = answer


async def submit_encrypted_in(
    submit: Callable[[MakeJobs], Coroutine[Any, Any, Sequence[Inserted]]], make: MakeJobs, cipher: Cipher
) -> Sequence[Inserted]:
    """Submit jobs in a caller's transaction; a reused idempotency key is compared under the other keys as well.

    A refused submission leaves the transaction as it was, so it can be repeated.
    """
    answers: Sequence[Inserted] = ()
    for key in cipher.keys:
        answers = await submit(partial(_made, cipher, make, key))
        if all(answer.receipt is not Receipt.KEY_REUSED for answer in answers):
            break
    return answers


def _made(cipher: Cipher, make: MakeJobs, key: Key, now: datetime) -> Sequence[NewJob] | NewWorkflow:
    made = make(now)
    return encrypted_workflow(cipher, made) if isinstance(made, NewWorkflow) else encrypted_jobs(cipher, made, key)


def encrypted_workflow(cipher: Cipher, workflow: NewWorkflow, key: Key | None = None) -> NewWorkflow:
    """Encrypt the payloads of a workflow, bound to the job types: a node that runs again has another job."""
    return replace(workflow, nodes=tuple(replace(one, job=_node_job(cipher, one.job, key)) for one in workflow.nodes))


def _node_job(cipher: Cipher, job: NewJob, key: Key | None) -> NewJob:
    payload = cipher.encrypt(job.payload, PAYLOAD, bound_to_type(job.type))
    job = replace(_with_follow_ups(cipher, job), payload=payload)
    if job.idempotency is None:
        return job
    request = cipher.digest(job.idempotency.request, key)
    return replace(job, idempotency=replace(job.idempotency, request=request))


def decrypted_job(cipher: Cipher, job: Job) -> Job:
    """Decrypt payload, result and error of a job; what cannot be decrypted here stays an envelope."""
    bound_to = (bound_to_job(job.id),)
    changes: dict[str, Any] = {}
    if is_encrypted(job.payload):
        changes["payload"] = _or_envelope(job.payload, lambda: cipher.decrypt_payload(job))
    if job.result is not None and is_encrypted(job.result):
        result = job.result
        changes["result"] = _or_envelope(result, lambda: cipher.decrypt_result(result, job.id))
    if job.error is not None and is_encrypted(job.error.message):
        changes["error"] = decrypted_error(cipher, job.error, bound_to)
    return replace(job, **changes) if changes else job


def decrypted_error(cipher: Cipher, error: JobError, bound_to: Sequence[str]) -> JobError:
    """Decrypt message and traceback of an error; what cannot be decrypted here stays an envelope."""
    return JobError(
        error.kind,
        _or_envelope(error.message, lambda: cipher.decrypt(error.message, "error", bound_to)),
        _or_envelope(error.traceback, lambda: cipher.decrypt(error.traceback, "traceback", bound_to)),
    )


def _or_envelope(text: str, decrypt: Callable[[], str]) -> str:
    if not is_encrypted(text):
        return text
    try:
        return decrypt()
    except (KeyMissing, DecryptionFailed):
        return text


class EncryptedControl:
    """A `Control` that encrypts what it submits and decrypts what it reads."""

    def __init__(self, control: Control, cipher: Cipher, fresh_id: Callable[[], JobId]) -> None:
        self._control = control
        self._cipher = cipher
        self.submit = encrypting_submit(control.submit, cipher, fresh_id)

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        return [decrypted_job(self._cipher, job) for job in await self._control.get(ids)]

    async def find(self, query: JobQuery) -> Sequence[Job]:
        return [decrypted_job(self._cipher, job) for job in await self._control.find(query)]

    async def wait(self, job_id: JobId, at_most: timedelta) -> Job:
        return decrypted_job(self._cipher, await self._control.wait(job_id, at_most))

    async def cancel(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
        return await self._control.cancel(ids, by)

    async def retry(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
        return await self._control.retry(ids, by)

    async def emit(self, emission: Emission, by: Actor) -> Emitted:
        return await self._control.emit(encrypted_emission(self._cipher, emission), by)

    async def census(self) -> Census:
        return await self._control.census()

    async def submit_workflow(self, workflow: NewWorkflow) -> WorkflowReceipt:
        for number, key in enumerate(self._cipher.keys, start=1):
            try:
                return await self._control.submit_workflow(encrypted_workflow(self._cipher, workflow, key))
            except KeyReused:
                # The first request may have been made under an earlier key.
                if number == len(self._cipher.keys):
                    raise
        raise KeyMissing("no encryption keys are configured here; set encryption_keys (ROTA_ENCRYPTION_KEYS)")

    async def workflow(self, workflow_id: WorkflowId) -> StoredWorkflow:
        return await self._control.workflow(workflow_id)

    async def workflow_nodes(self, workflow_id: WorkflowId) -> Sequence[Node]:
        return await self._control.workflow_nodes(workflow_id)

    async def workflow_results(self, workflow_id: WorkflowId) -> Sequence[NodeResult]:
        return [self._decrypted_result(one) for one in await self._control.workflow_results(workflow_id)]

    def _decrypted_result(self, one: NodeResult) -> NodeResult:
        result, error = one.result, one.error
        if result is not None and is_encrypted(result):
            text = result
            result = _or_envelope(text, lambda: self._cipher.decrypt_result(text, one.job_id))
        if error is not None:
            error = decrypted_error(self._cipher, error, (bound_to_job(one.job_id),))
        return replace(one, result=result, error=error)

    async def cancel_workflow(self, workflow_id: WorkflowId, by: Actor) -> StoredWorkflow:
        return await self._control.cancel_workflow(workflow_id, by)

    async def retry_workflow(self, workflow_id: WorkflowId, by: Actor, *, node: str | None = None) -> StoredWorkflow:
        return await self._control.retry_workflow(workflow_id, by, node=node)

    async def skip_node(self, workflow_id: WorkflowId, node: str, by: Actor) -> StoredWorkflow:
        return await self._control.skip_node(workflow_id, node, by)

"""Submissions: the form of a new job, its defaults, and its conversion to a core value.

Legacy synonyms (`due_at`, `dedupe_key` ...) are fields of the form; `normalized` moves them to the canonical field.
Two of them with different values are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from rota.core.breaker import BREAKER_IS_KEY, check_breaker_name
from rota.core.envelope import is_encrypted
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId, to_text
from rota.core.lifecycle import State
from rota.core.limit import breaker_limit, key_of
from rota.core.request_hash import canonical_request_hash
from rota.core.retry import DEFAULT_BACKOFF, DEFAULT_MAX_ATTEMPTS, Backoff
from rota.core.submission import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    NO_META,
    TAKES,
    Delivery,
    Dependency,
    IdempotencyKey,
    Need,
    NewJob,
    Takes,
    Template,
    attempts_of,
    key_for,
    no_meta,
    request_hash,
)
from rota.core.unique_keys import (
    CONTROL_OPTIONS,
    SubmitControl,
    UniqueKey,
    UniqueKind,
    arguments_of,
    control_of,
    overridden,
)
from rota.wire.retry_rules import RetryRule, backoff_of, retry_rule_of
from rota.wire.scalars import (
    Duration,
    Identifier,
    Moment,
    Name,
    Priority,
    UncheckedQueueName,
    UncheckedTypeName,
    check_queue_name,
    check_type_name,
    duration_of,
    id_in_field,
    moment_of,
    null_value,
    seconds_of,
)

DEFAULT_TYPE: Final = "default"

Attempts = Annotated[int, Meta(ge=1, le=10_000)]
Tags = Annotated[list[Name], Meta(max_length=32)]
Metadata = Annotated[dict[Name, Annotated[str, Meta(max_length=1_000)]], Meta(max_length=64)]
T = TypeVar("T")


class FollowUp(Struct, kw_only=True, forbid_unknown_fields=True):
    """A job to be created later: at the end of another one, or at the fire times of a schedule."""

    type: UncheckedTypeName = DEFAULT_TYPE
    payload: Raw = msgspec.field(default_factory=null_value)
    queue: UncheckedQueueName | None = None
    priority: Priority | None = None
    max_attempts: Attempts | None = None
    retry: RetryRule | None = None
    delivery: Delivery | None = None
    timeout: Duration | None = None
    expires: Duration | None = None
    delay: Duration | None = None
    #: Jobs with the same key run one at a time, or as many at once as the key's limit says.
    concurrency_key: Name | None = None
    #: The circuit breaker that the job waits for while it is open, instead of a `concurrency_key`. For the type `http`,
    #: `{host}` stands for the host of the URL.
    breaker: Name | None = None
    tags: Tags | None = None
    meta: Metadata | None = None
    on_success: FollowUp | None = None
    on_failure: FollowUp | None = None
    #: What the job gets as its first argument: the `result` of the job before it, the `results` of several, or the
    #: `failure` that it handles.
    takes: Takes | None = None


class AfterForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """A job to wait for: until it succeeds, until it ends in any way, or until it fails."""

    id: Identifier
    need: Need = Need.SUCCESS


class Submission(FollowUp, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A new job. With `cron` it is a schedule that creates such jobs."""

    #: The job's id, for a payload that is encrypted and bound to it; otherwise the server makes one.
    id: Identifier | None = None
    run_at: Moment | None = None
    due_at: Moment | None = None
    schedule_at: Moment | None = None
    idempotency_key: Name | None = None
    dedupe_key: Name | None = None
    #: Compared when the key is used again. Without it the whole request is compared: then a client that repeats a call
    #: with newly computed times sends a different request.
    idempotency_fingerprint: Name | None = None
    after: Annotated[list[Identifier | AfterForm], Meta(max_length=1_000)] | None = None
    #: A submission is answered with an earlier job of the same arguments that was made within this time; 0 for none, as
    #: with `debounce` and `throttle`.
    unique_for: Duration | None = None
    #: The arguments that make two submissions equal; for unique jobs all of them unless some are named.
    unique_by: Annotated[list[Name], Meta(min_length=1, max_length=32)] | None = None
    #: A text that makes two submissions equal, instead of arguments.
    unique_key: Name | None = None
    #: The states in which an earlier job counts; without `unique_for`, for as long as it is in one of them.
    unique_states: Annotated[list[State], Meta(min_length=1, max_length=9)] | None = None
    #: The job starts when no further submission came for this long, with the last one's payload.
    debounce: Duration | None = None
    #: The longest time that a debounced job waits for further submissions.
    max_wait: Duration | None = None
    #: At most one job is made in this time; submissions in between are answered with it.
    throttle: Duration | None = None
    cron: Name | None = None
    schedule: Name | None = None
    zone: Name | None = None
    name: Name | None = None


@dataclass(frozen=True, slots=True)
class Defaults:
    """Values for the fields that a submission leaves out: those of its task, else those of the server."""

    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    backoff: Backoff = DEFAULT_BACKOFF
    timeout: timedelta | None = None
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    expires: timedelta | None = None
    delay: timedelta | None = None
    concurrency_key: str | None = None
    tags: tuple[str, ...] = ()
    meta: Mapping[str, str] = field(default_factory=no_meta)
    on_success: Template | None = None
    on_failure: Template | None = None
    control: SubmitControl | None = None
    #: The names of the task's positional arguments, and the values of those that may be left out.
    argument_names: tuple[str, ...] = ()
    argument_defaults: Mapping[str, Any] = field(default_factory=dict)
    #: The argument of the task whose value is the concurrency key.
    per: str | None = None
    tasks: Mapping[str, Defaults] = field(default_factory=dict)

    def of(self, job_type: str) -> Defaults:
        return self.tasks.get(job_type, self)


SERVER_DEFAULTS: Final = Defaults()


def normalized(submission: Submission, header_key: str | None = None) -> Submission:
    """Move legacy synonyms to the canonical fields; refuse contradictions."""
    s = submission
    if s.due_at is not None or s.schedule_at is not None:
        s.run_at = agreed_value({"run_at": s.run_at, "due_at": s.due_at, "schedule_at": s.schedule_at})
        s.due_at = s.schedule_at = None
    # In UTC, so that the same time in another zone is the same request.
    if s.run_at is not None:
        s.run_at = moment_of(s.run_at, "run_at")
    if s.dedupe_key is not None or header_key is not None:
        keys = {"idempotency_key": s.idempotency_key, "dedupe_key": s.dedupe_key, "Idempotency-Key": header_key}
        s.idempotency_key = agreed_value(keys)
        s.dedupe_key = None
    if s.idempotency_fingerprint is not None and s.idempotency_key is None:
        problem = "needs a key; give 'idempotency_key' as well"
        raise InvalidRequest(f"idempotency_fingerprint: {problem}", field="idempotency_fingerprint")
    if s.schedule is not None:
        s.cron = agreed_value({"cron": s.cron, "schedule": s.schedule})
        s.schedule = None
    if s.run_at is not None and s.delay is not None:
        raise InvalidRequest("delay: give either 'run_at' or 'delay', not both", field="delay")
    if s.cron is None and (s.zone is not None or s.name is not None):
        field = "zone" if s.zone is not None else "name"
        raise InvalidRequest(f"{field}: is for recurring jobs; give 'cron' as well", field=field)
    return s


def agreed_value(synonyms: Mapping[str, T | None]) -> T | None:
    """Return the value of several synonyms; refuse different values."""
    given = {name: value for name, value in synonyms.items() if value is not None}
    values = list(given.values())
    if any(value != values[0] for value in values[1:]):
        names = " and ".join(f"'{name}'" for name in given)
        raise InvalidRequest(
            f"{next(iter(given))}: {names} mean the same and differ; give one", field=next(iter(given))
        )
    return values[0] if values else None


def request_of(submission: Submission, defaults: Defaults) -> bytes:
    """Return the hash stored with an idempotency key: of the fingerprint in the submission, or of the whole request.

    A fingerprint of 32 hexadecimal digits is a hash already, as Rota's own client sends it.
    """
    if (given := submission.idempotency_fingerprint) is not None:
        return fingerprint_hash(given)
    return canonical_request_hash(
        template_of(submission, defaults), run_at=submission.run_at, after=_parents(submission)
    )


def fingerprint_hash(given: str) -> bytes:
    """Return the hash of a fingerprint; one that is a hash already stays as it is."""
    return bytes.fromhex(given) if _HASH.fullmatch(given) else request_hash(given.encode())


_HASH: Final = re.compile(r"[0-9a-f]{32}")


def _parents(submission: Submission) -> tuple[Dependency, ...]:
    return tuple(dict.fromkeys(map(_dependency, submission.after))) if submission.after else ()


def _dependency(given: str | AfterForm) -> Dependency:
    if isinstance(given, AfterForm):
        return Dependency(id_in_field(given.id, "after"), given.need)
    return Dependency(id_in_field(given, "after"))


def _after_form(dependency: Dependency) -> str | AfterForm:
    name = to_text(dependency.on)
    return name if dependency.need is Need.SUCCESS else AfterForm(id=name, need=dependency.need)


def _meta(form: FollowUp, own: Defaults) -> Mapping[str, str]:
    """Return the meta of a job, with what it takes from the jobs before it."""
    meta = own.meta if form.meta is None else form.meta or NO_META
    return meta if form.takes is None else {**meta, TAKES: form.takes.value}


def new_job_of(
    submission: Submission, job_id: JobId, now: datetime, *, defaults: Defaults = SERVER_DEFAULTS, key_scope: str = ""
) -> NewJob:
    """Convert a normalized submission. Relative times count from `now`."""
    s, own = submission, defaults.of(submission.type)
    delay = duration_of(s.delay, "delay") if s.delay is not None or s.run_at is not None else own.delay
    run_at = now + delay if delay else s.run_at
    control = _control_of(s, own)
    if control is not None and control.kind is UniqueKind.DEBOUNCE:
        run_at = now + _debounce(s, control)
    expires = own.expires if s.expires is None else duration_of(s.expires, "expires")
    key = None
    if s.idempotency_key is not None:
        key = IdempotencyKey(s.idempotency_key, request_of(s, defaults), key_scope)
    delivery = s.delivery or own.delivery
    return NewJob(
        id=job_id,
        type=check_type_name(s.type, "type"),
        payload=text_of(s.payload),
        queue=own.queue if s.queue is None else check_queue_name(s.queue, "queue"),
        priority=s.priority or own.priority,
        run_at=run_at,
        max_attempts=attempts_of(delivery, s.max_attempts, own.max_attempts),
        backoff=own.backoff if s.retry is None else backoff_of(s.retry, own.backoff),
        delivery=delivery,
        timeout=own.timeout if s.timeout is None else positive_duration(s.timeout, "timeout"),
        expires_at=None if expires is None else (run_at or now) + expires,
        idempotency=key,
        concurrency_key=_key_of(s, own),
        tags=own.tags if s.tags is None else tuple(dict.fromkeys(s.tags)),
        meta=(own.meta if s.meta is None else s.meta or NO_META) if s.takes is None else _meta(s, own),
        after=_parents(s) if s.after else (),
        on_success=own.on_success if s.on_success is None else template_of(s.on_success, defaults),
        on_failure=own.on_failure if s.on_failure is None else template_of(s.on_failure, defaults),
        unique=None
        if control is None
        else control.key_of(text_of(s.payload), own.argument_names, own.argument_defaults),
    )


def _key_of(form: FollowUp, own: Defaults) -> str | None:
    """Return the concurrency key of a job, which may be that of its own circuit breaker."""
    if form.breaker is None:
        if form.concurrency_key is None and own.per is not None and form.takes is None:
            return _key_of_argument(form, own, own.per)
        return own.concurrency_key if form.concurrency_key is None else form.concurrency_key
    if form.concurrency_key is not None:
        raise InvalidRequest(f"breaker: {BREAKER_IS_KEY}", field="breaker")
    check_breaker_name(form.breaker)
    return key_for(breaker_limit(form.breaker), form.type, text_of(form.payload))


def _key_of_argument(form: FollowUp, own: Defaults, per: str) -> str | None:
    """Return the concurrency key that the value of an argument makes; None if the payload does not show it."""
    payload = text_of(form.payload)
    given = arguments_of(payload, own.argument_names) or {}
    if not isinstance(given, dict) or is_encrypted(payload):
        return None
    value = given.get(per, own.argument_defaults.get(per))
    if value is None and per not in given:
        return None
    return key_of(form.type, value if isinstance(value, str) else msgspec.json.encode(value).decode())


_CONTROL_NAMES: Final = ("unique_for", *sorted(CONTROL_OPTIONS - {"unique_for"}))
_control_values: Final = attrgetter(*_CONTROL_NAMES)
_NOT_GIVEN: Final = (None,) * len(_CONTROL_NAMES)
_OFF: Final = (0.0, *_NOT_GIVEN[1:])


def _control_of(s: Submission, own: Defaults) -> SubmitControl | None:
    """Return how repeated submissions are treated: as the submission says, else as its task does."""
    values = _control_values(s)
    # Nearly all submissions say nothing, or, if Rota's own client sends them, that there is none.
    if values == _NOT_GIVEN:
        return own.control
    if values == _OFF:
        return None
    given = {name: value for name, value in zip(_CONTROL_NAMES, values, strict=True) if value is not None}
    for name in ("unique_for", "debounce", "max_wait", "throttle"):
        if name in given:
            given[name] = duration_of(given[name], name)
    return control_of(**overridden({} if own.control is None else own.control.options(), given))


def _debounce(s: Submission, control: SubmitControl) -> timedelta:
    """Return how long a debounced job waits; refuse other options that decide when it starts."""
    for name in ("run_at", "delay", "after"):
        if getattr(s, name):
            message = "cannot be combined with debounce, which decides when the job starts; give one of them"
            raise InvalidRequest(f"{name}: {message}", field=name)
    assert control.period is not None
    return control.period


def control_fields(s: Submission) -> list[str]:
    """Name the options for repeated submissions that a submission has; a schedule takes none."""
    return [name for name in _CONTROL_NAMES if getattr(s, name) is not None]


def template_of(form: FollowUp, defaults: Defaults = SERVER_DEFAULTS) -> Template:
    own = defaults.of(form.type)
    delivery = form.delivery or own.delivery
    return Template(
        type=check_type_name(form.type, "type"),
        payload=text_of(form.payload),
        queue=own.queue if form.queue is None else check_queue_name(form.queue, "queue"),
        priority=form.priority or own.priority,
        max_attempts=attempts_of(delivery, form.max_attempts, own.max_attempts),
        backoff=own.backoff if form.retry is None else backoff_of(form.retry, own.backoff),
        delivery=delivery,
        timeout=own.timeout if form.timeout is None else positive_duration(form.timeout, "timeout"),
        expires=own.expires if form.expires is None else duration_of(form.expires, "expires"),
        delay=own.delay if form.delay is None else duration_of(form.delay, "delay"),
        concurrency_key=_key_of(form, own),
        tags=own.tags if form.tags is None else tuple(dict.fromkeys(form.tags)),
        meta=_meta(form, own),
        on_success=own.on_success if form.on_success is None else template_of(form.on_success, defaults),
        on_failure=own.on_failure if form.on_failure is None else template_of(form.on_failure, defaults),
    )


def follow_up_of(template: Template) -> FollowUp:
    return FollowUp(**_fields_of(template), expires=seconds_of(template.expires), delay=seconds_of(template.delay))


def submission_of(job: NewJob, now: datetime) -> Submission:
    """Convert a new job to a request. Its expiry counts from `now`.

    A job without a time gets a delay of 0: otherwise the delay of its task in the server's app would apply.
    """
    expires = None if job.expires_at is None else max((job.expires_at - (job.run_at or now)).total_seconds(), 0.0)
    is_debounced = job.unique is not None and job.unique.kind is UniqueKind.DEBOUNCE
    return Submission(
        **_fields_of(job),
        **_control_fields_of(job.unique),
        id=to_text(job.id) if is_encrypted(job.payload) else None,
        run_at=None if is_debounced else job.run_at,
        delay=0.0 if job.run_at is None and not is_debounced else None,
        expires=expires,
        idempotency_key=None if job.idempotency is None else job.idempotency.key,
        idempotency_fingerprint=None if job.idempotency is None else job.idempotency.request.hex() or None,
        after=[_after_form(one) for one in job.after] or None,
    )


#: Without it, the control of the job's task in the server's app would apply.
_NO_CONTROL: Final[Mapping[str, Any]] = {"unique_for": 0.0}


def _control_fields_of(key: UniqueKey | None) -> Mapping[str, Any]:
    if key is None:
        return _NO_CONTROL
    period = seconds_of(key.period)
    fields: dict[str, Any] = {"unique_key": key.text}
    match key.kind:
        case UniqueKind.UNIQUE:
            fields |= {"unique_for": period, "unique_states": sorted(key.states)}
        case UniqueKind.THROTTLE:
            fields |= {"throttle": period}
        case UniqueKind.DEBOUNCE:
            fields |= {"debounce": period, "max_wait": seconds_of(key.max_wait)}
    return fields


def _fields_of(one: Template | NewJob) -> dict[str, Any]:
    return {
        "type": one.type,
        "payload": Raw(one.payload),
        "queue": one.queue,
        "priority": one.priority,
        "max_attempts": one.max_attempts,
        "retry": retry_rule_of(one.backoff),
        "delivery": one.delivery,
        "timeout": seconds_of(one.timeout),
        "concurrency_key": one.concurrency_key,
        "tags": list(one.tags) or None,
        "meta": dict(one.meta) or None,
        "on_success": None if one.on_success is None else follow_up_of(one.on_success),
        "on_failure": None if one.on_failure is None else follow_up_of(one.on_failure),
    }


def positive_duration(value: float | str | None, field: str) -> timedelta | None:
    """Read a duration that must not be nothing."""
    span = duration_of(value, field)
    if span is not None and not span:
        raise InvalidRequest(f"{field}: must be longer than nothing", field=field)
    return span


def text_of(value: Raw) -> str:
    """Return embedded JSON as text."""
    return str(memoryview(value), "utf-8")

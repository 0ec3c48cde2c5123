"""Submissions: new jobs, job templates, idempotency keys, dependencies, and their validation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from rota.core.envelope import is_encrypted
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId, ScheduleId, to_text
from rota.core.retry import DEFAULT_BACKOFF, DEFAULT_MAX_ATTEMPTS, Backoff
from rota.core.time import MICROSECOND, span_to_micros
from rota.core.trace import traced
from rota.core.unique_keys import UniqueKey, UniqueKind
from rota.core.value import value

DEFAULT_QUEUE: Final = "default"
LOWEST_PRIORITY: Final = 1
DEFAULT_PRIORITY: Final = 5
HIGHEST_PRIORITY: Final = 10

NO_META: Final[Mapping[str, str]] = MappingProxyType({})


def no_meta() -> Mapping[str, str]:
    """Return the one empty mapping that all jobs without meta share."""
    return NO_META


class Delivery(StrEnum):
    """The delivery guarantee of a job."""

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


class Need(StrEnum):
    """What a dependency requires of the other job."""

    SUCCESS = "success"
    END = "end"
    #: The other job ended without success: dead, cancelled, expired, or cancelled because of its own dependencies.
    FAILURE = "failure"


class Takes(StrEnum):
    """What a job gets as its first argument from the jobs before it."""

    NOTHING = "nothing"
    #: The result of its only parent.
    RESULT = "result"
    #: The results of its parents, in the order in which they were named; null for a parent without a result.
    RESULTS = "results"
    #: The parent that failed: id, type, state, reason, error, payload.
    FAILURE = "failure"


#: The key in a job's meta under which `Takes` is stored. Keys that begin with `rota.` are Rota's own.
TAKES: Final = "rota.takes"
#: The key under which the shape of nested results is stored: numbers of results that follow each other, and in turn
#: the shapes of the lists between them.
SHAPE: Final = "rota.shape"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A dependency of a blocked job on another job."""

    on: JobId
    need: Need = Need.SUCCESS


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A key by which a repeated submission is recognised.

    `request` is a hash of the request, so that the same key with another request can be refused. `scope` separates the
    keys of different submitters.
    """

    key: str
    request: bytes
    scope: str = ""
    keep: timedelta = timedelta(days=1)


def request_hash(text: bytes) -> bytes:
    """Return the hash that is stored with an idempotency key."""
    return blake2b(text, digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Template:
    """A job to be made later, by a schedule or as a follow-up."""

    type: str
    payload: str = "null"
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    backoff: Backoff = DEFAULT_BACKOFF
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    timeout: timedelta | None = None
    expires: timedelta | None = None
    delay: timedelta | None = None
    concurrency_key: str | None = None
    tags: tuple[str, ...] = ()
    meta: Mapping[str, str] = field(default_factory=no_meta)
    on_success: Template | None = None
    on_failure: Template | None = None

    def make(
        self,
        job_id: JobId,
        now: datetime,
        *,
        payload: str | None = None,
        traceparent: str | None = None,
        run_at: datetime | None = None,
        idempotency: IdempotencyKey | None = None,
        parent_id: JobId | None = None,
        schedule_id: ScheduleId | None = None,
        fire_time: datetime | None = None,
        after: tuple[Dependency, ...] = (),
        unique: UniqueKey | None = None,
    ) -> NewJob:
        """Make a job of this template, with a payload of its own if one is given."""
        due = run_at if run_at is not None else now + self.delay if self.delay else None
        content = self.payload if payload is None else payload
        return NewJob(
            id=job_id,
            type=self.type,
            payload=content,
            queue=self.queue,
            priority=self.priority,
            run_at=due,
            max_attempts=self.max_attempts,
            backoff=self.backoff,
            delivery=self.delivery,
            timeout=self.timeout,
            expires_at=None if self.expires is None else (due or now) + self.expires,
            concurrency_key=key_for(self.concurrency_key, self.type, content),
            tags=self.tags,
            meta=traced(self.meta, traceparent),
            idempotency=idempotency,
            after=after,
            on_success=self.on_success,
            on_failure=self.on_failure,
            parent_id=parent_id,
            schedule_id=schedule_id,
            fire_time=fire_time,
            unique=unique,
        )

    def to_text(self) -> str:
        """Write the template as stores keep it."""
        return json.dumps(self._to_plain(), ensure_ascii=False)

    @staticmethod
    @lru_cache(maxsize=1024)
    def from_text(text: str) -> Template:
        """Read a template back. Cached, since the jobs of one schedule or chain share it."""
        return _template_of(json.loads(text))

    def _to_plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"type": self.type}
        for name in self.__slots__:
            match value := getattr(self, name):
                case None | ():
                    pass
                case timedelta():
                    plain[name] = span_to_micros(value)
                case Backoff():
                    plain[name] = json.loads(value.to_text())
                case Template():
                    plain[name] = value._to_plain()  # noqa: SLF001 - its own kind
                case Mapping():
                    plain[name] = dict(value)
                case _:
                    plain[name] = value
        return plain


def _template_of(plain: dict[str, Any]) -> Template:
    for name in ("timeout", "expires", "delay"):
        if name in plain:
            plain[name] *= MICROSECOND
    for name in ("on_success", "on_failure"):
        if name in plain:
            plain[name] = _template_of(plain[name])
    plain["backoff"] = Backoff.from_text(json.dumps(plain["backoff"])) if plain.get("backoff") else DEFAULT_BACKOFF
    plain["delivery"] = Delivery(plain["delivery"])
    plain["tags"] = tuple(plain.get("tags", ()))
    # The template is cached and shared, so its meta must be read-only.
    plain["meta"] = MappingProxyType(plain["meta"])
    # Fields that a newer release has added are ignored.
    return Template(**{name: value for name, value in plain.items() if name in Template.__slots__})


@value
class NewJob:
    """A job as it is submitted. `run_at=None` means now, by the store's clock."""

    id: JobId
    type: str
    payload: str = "null"
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    run_at: datetime | None = None
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    backoff: Backoff = DEFAULT_BACKOFF
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    timeout: timedelta | None = None
    expires_at: datetime | None = None
    idempotency: IdempotencyKey | None = None
    concurrency_key: str | None = None
    tags: tuple[str, ...] = ()
    meta: Mapping[str, str] = field(default_factory=no_meta)
    after: tuple[Dependency, ...] = ()
    on_success: Template | None = None
    on_failure: Template | None = None
    parent_id: JobId | None = None
    schedule_id: ScheduleId | None = None
    fire_time: datetime | None = None
    unique: UniqueKey | None = None


#: The longest name of a type, queue, key or tag.
LONGEST_NAME: Final = 200


#: Stands for the host of the URL of an `http` job in the name of its circuit breaker.
HOST: Final = "{host}"
#: How the concurrency keys of jobs with a circuit breaker of their own begin.
BREAKER: Final = "breaker:"


def key_for(key: str | None, type_: str, payload: str) -> str | None:
    """Return the concurrency key of a job with this payload: of an `http` job, with the host that it calls."""
    if key is None or not key.startswith(BREAKER) or HOST not in key:
        return key
    try:
        host = urlsplit(json.loads(payload)["url"]).hostname if type_ == "http" else None
    except (ValueError, TypeError, KeyError, AttributeError):
        host = None
    if not host:
        message = f"breaker: {HOST} stands for the host of a job of type 'http' with a payload.url; name the breaker"
        raise InvalidRequest(message, field="breaker")
    return key.replace(HOST, host)


def attempts_of(delivery: Delivery, given: int | None, default: int) -> int:
    """Return the most attempts of a job. One that may start only once has one, and more are refused."""
    if delivery is not Delivery.AT_MOST_ONCE:
        return given or default
    if given is not None and given > 1:
        _refuse("max_attempts", given, "a job with delivery at_most_once starts once; leave max_attempts out")
    return 1


def unknown_parent(job_id: JobId) -> InvalidRequest:
    """Make the error for a dependency on an unknown job."""
    message = f"after: job {to_text(job_id)} is unknown; it was never submitted here, or it was pruned"
    return InvalidRequest(message, field="after")


LARGEST_ATTEMPTS: Final = 2**31 - 1
_TAKES: Final = tuple(one.value for one in Takes)
_TAKES_RESULTS: Final = (Takes.RESULT, Takes.RESULTS)


def check(job: NewJob | Template) -> None:
    """Refuse a job that no store can keep or no worker can run, naming the field.

    For submissions that bypass the API: a job that cannot be claimed would block its lane.
    """
    _check_form(job.priority, job.max_attempts, job.timeout, job.type, job.queue, job.concurrency_key, job.tags)
    if isinstance(job, Template) and job.concurrency_key is not None:
        key_for(job.concurrency_key, job.type, job.payload)
    payload = job.payload
    if "\0" in payload or not payload.isascii():
        _check_text("payload", payload)
    if job.meta:
        for text in (*job.meta, *job.meta.values()):
            _check_text("meta", text)
        if TAKES in job.meta:
            _check_takes(job, job.meta[TAKES])
    if isinstance(job, NewJob) and job.unique is not None and job.unique.kind is UniqueKind.DEBOUNCE:
        _check_debounce(job)
    if job.on_success is not None:
        _check_follow_up("on_success", job.on_success, (Takes.FAILURE,), "the job before it has succeeded")
    if job.on_failure is not None:
        _check_follow_up("on_failure", job.on_failure, _TAKES_RESULTS, "the job before it has no result")


def _check_follow_up(field_name: str, template: Template, never_there: Sequence[Takes], why: str) -> None:
    check(template)
    if (takes := template.meta.get(TAKES)) in never_there:
        _refuse(f"{field_name}.takes", takes, f"{why}; leave it out")


def _check_debounce(job: NewJob) -> None:
    if job.run_at is None:
        _refuse("run_at", None, "a debounced job waits for its time")
    if is_encrypted(job.payload):
        why = "an encrypted payload belongs to one job and cannot be given to another; use throttle or unique_for"
        raise InvalidRequest(f"debounce: {why}", field="debounce")


def _check_takes(job: NewJob | Template, takes: str) -> None:
    if takes not in _TAKES:
        _refuse("takes", takes, f"it must be one of {', '.join(_TAKES)}")
    # The job of a template follows the job that has the template.
    if isinstance(job, Template) or job.parent_id is not None or takes == Takes.NOTHING:
        return
    parents = len({parent.on for parent in job.after})
    if not parents:
        _refuse("takes", takes, "the job waits for no other job; name one in 'after'")
    if takes == Takes.RESULT and parents > 1:
        _refuse("takes", takes, f"the job waits for {parents} jobs; take 'results' instead")
    needs = {parent.need for parent in job.after}
    if takes == Takes.FAILURE and needs == {Need.SUCCESS}:
        _refuse(
            "takes", takes, "the job starts only after successes; need 'failure' or 'end' of one, or take 'results'"
        )
    if takes in _TAKES_RESULTS and needs == {Need.FAILURE}:
        _refuse("takes", takes, "the job starts only after failures, which have no result; take 'failure' instead")


# Cached, since a million jobs share a few combinations. A refusal is not cached.
@lru_cache(maxsize=4096)
def _check_form(
    priority: int,
    max_attempts: int,
    timeout: timedelta | None,
    type_: str,
    queue: str,
    concurrency_key: str | None,
    tags: tuple[str, ...],
) -> None:
    if not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        _refuse("priority", priority, f"it must lie between {LOWEST_PRIORITY} and {HIGHEST_PRIORITY}")
    if not 1 <= max_attempts <= LARGEST_ATTEMPTS:
        _refuse("max_attempts", max_attempts, f"it must lie between 1 and {LARGEST_ATTEMPTS}")
    if timeout is not None and timeout <= timedelta(0):
        _refuse("timeout", timeout, "it must be longer than nothing")
    _check_name("type", type_)
    _check_name("queue", queue)
    if concurrency_key is not None:
        _check_name("concurrency_key", concurrency_key)
    for tag in tags:
        _check_name("tags", tag)


@lru_cache(maxsize=4096)
def _check_name(field_name: str, text: str) -> None:
    _check_text(field_name, text)
    if not 1 <= len(text) <= LONGEST_NAME:
        _refuse(field_name, text[:40], f"it must have 1 to {LONGEST_NAME} characters")


def _check_text(field_name: str, text: str) -> None:
    """Refuse text that some database cannot store: a lone surrogate, or NUL in PostgreSQL."""
    if "\0" in text:
        _refuse(field_name, text[:40], "it must not hold the character NUL")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            _refuse(field_name, text[:40], "it holds half a character (a lone surrogate)")


def _refuse(field_name: str, value: object, why: str) -> NoReturn:
    raise InvalidRequest(f"{field_name}: {value!a} will not do: {why}", field=field_name)

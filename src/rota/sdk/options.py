"""Options: one set of names for the decorator, `.using(…)`, HTTP and the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict

from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.core.retry import DEFAULT_MAX_ATTEMPTS, Backoff, Growth, shared
from rota.core.submission import HIGHEST_PRIORITY, LOWEST_PRIORITY, Delivery, Template

Duration = timedelta | float | str


@dataclass(frozen=True, slots=True)
class Retry:
    """How often to try and how long to wait in between.

    `delays` gives the waits one by one, the last repeating; otherwise they grow from `base` by `factor` up to `cap`.
    Exceptions in `give_up_on`, and those not in `on`, are permanent.
    """

    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    base: Duration = 1
    factor: float = 2
    cap: Duration = 60
    jitter: float = 0.1
    delays: Sequence[Duration] | None = None
    on: tuple[type[BaseException], ...] = (Exception,)
    give_up_on: tuple[type[BaseException], ...] = ()
    max_elapsed: Duration | None = None

    @property
    def backoff(self) -> Backoff:
        """The part of this that is stored with a job."""
        elapsed = None if self.max_elapsed is None else parse_duration(self.max_elapsed, field="retry.max_elapsed")
        rule = Backoff(
            growth=Growth.LISTED if self.delays else Growth.EXPONENTIAL,
            base=parse_duration(self.base, field="retry.base"),
            factor=float(self.factor),
            cap=parse_duration(self.cap, field="retry.cap"),
            jitter=self.jitter,
            delays=tuple(parse_duration(delay, field="retry.delays") for delay in self.delays or ()),
            max_elapsed=elapsed,
        )
        return shared(rule)


class Options(TypedDict, total=False):
    """What may be said about a task or one submission of it."""

    queue: str
    priority: int
    delay: Duration
    run_at: datetime
    expires: Duration
    timeout: Duration
    retry: Retry | int
    delivery: Delivery | str
    idempotency_key: str
    concurrency_key: str
    tags: Sequence[str]
    meta: Mapping[str, str]
    on_success: Any
    on_failure: Any
    #: The caller's own connection, in whose transaction the job is stored. Of one submission, not of a task.
    tx: object


KNOWN: Final = frozenset(Options.__annotations__)


def retry_of(value: Retry | int) -> Retry:
    """Read a retry rule; a number is how many attempts there are in all, as in `Retry(5)`."""
    return value if isinstance(value, Retry) else Retry(max_attempts=value)


def template_of(name: str, payload: str, options: Options) -> Template:
    """Make the template that options describe; refuse what makes no sense, naming it."""
    _check(options)
    changes: dict[str, Any] = {key: options.get(key) for key in ("queue", "priority", "concurrency_key")}
    for key in ("delay", "expires", "timeout"):
        if (span := options.get(key)) is not None:
            changes[key] = parse_duration(span, field=key)  # type: ignore[arg-type]
    for key in ("on_success", "on_failure"):
        if (next_call := options.get(key)) is not None:
            _refuse_transaction(next_call.options, f"{key}: a follow-up is made when its job ends")  # type: ignore[attr-defined]
            changes[key] = next_call.template()  # type: ignore[attr-defined]
    if "retry" in options:
        retry = retry_of(options["retry"])
        changes |= {"max_attempts": retry.max_attempts, "backoff": retry.backoff}
    if "delivery" in options:
        changes["delivery"] = Delivery(options["delivery"])
    template = Template(type=name, payload=payload, tags=tuple(options.get("tags", ())), meta=options.get("meta", {}))
    return replace(template, **{key: value for key, value in changes.items() if value is not None})


def check_defaults(name: str, options: Options) -> None:
    """Refuse what cannot be said of a task, but only of one submission of it."""
    template_of(name, "null", options)
    _refuse_transaction(options, f"task {name!r}: a transaction ends, a task does not")


def _refuse_transaction(options: Options, why: str) -> None:
    if options.get("tx") is not None:
        raise InvalidRequest(f"tx: {why}; give it to one submission, with .using(tx=…)", field="tx")


def _check(options: Options) -> None:
    unknown = sorted(set(options) - KNOWN)
    if unknown:
        raise InvalidRequest(f"{unknown[0]!r} is no option; known are {', '.join(sorted(KNOWN))}", field=unknown[0])
    priority = options.get("priority")
    if priority is not None and not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        message = f"priority: {priority} must lie between {LOWEST_PRIORITY} and {HIGHEST_PRIORITY}"
        raise InvalidRequest(message, field="priority")

"""Options of tasks and submissions: one set of names for the decorator, `.using(…)`, HTTP and the command line.

An option is checked where it is given: a bad value is refused there, with the option's name, its value and a remedy.
The limits are those of the HTTP API (`rota.wire`). None stands for an option that is not given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NoReturn, Protocol, TypedDict

import msgspec

from rota.core.breaker import BREAKER_IS_KEY, check_breaker_name
from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.core.lifecycle import State
from rota.core.limit import breaker_limit
from rota.core.retry import DEFAULT_BACKOFF, DEFAULT_MAX_ATTEMPTS, Backoff, Growth, shared
from rota.core.submission import NO_META, Delivery, Takes, Template, check
from rota.core.unique_keys import CONTROL_OPTIONS, SubmitControl, UniqueKind, control_of, overridden
from rota.wire.scalars import (
    Name,
    Priority,
    UncheckedQueueName,
    UncheckedTypeName,
    check_queue_name,
    check_type_name,
    moment_of,
)
from rota.wire.submission import Attempts, Metadata, Tags, positive_duration

if TYPE_CHECKING:
    from rota.sdk.breakers import Breaker
    from rota.sdk.task import Call

Duration = timedelta | float | str
_LONGEST_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Retry:
    """How often to try and how long to wait in between.

    `delays` gives the waits one by one, the last repeating; otherwise they grow from `base` by `factor` up to `cap`.
    Fields left out are taken from the settings (`max_attempts`, `backoff_base`, `backoff_max`, `backoff_jitter`).
    Exceptions in `give_up_on`, and those not in `on`, are permanent; these two belong to a task, not to a submission.
    """

    max_attempts: int | None = None
    base: Duration | None = None
    factor: float = 2
    cap: Duration | None = None
    jitter: float | None = None
    delays: Sequence[Duration] | None = None
    on: tuple[type[BaseException], ...] = (Exception,)
    give_up_on: tuple[type[BaseException], ...] = ()
    max_elapsed: Duration | None = None
    #: Retries are at most this share of the starts of the task within the window; more of them start later.
    budget: float | None = None
    #: A minute if it is left out.
    budget_window: Duration | None = None

    def __post_init__(self) -> None:
        _read("retry.max_attempts", self.max_attempts, Attempts | None, "give the number of attempts, as in Retry(5)")
        _read("retry.factor", self.factor, float, "give a number")
        _read("retry.jitter", self.jitter, float | None, "give a number")
        _read("retry.budget", self.budget, float | None, "give a share of the starts, as in budget=0.1")
        if self.delays is not None and not _is_filled(self.delays):
            _refuse("retry.delays", self.delays, "not a list of delays", 'give one or more, as in delays=["1s", "5m"]')
        for name in ("on", "give_up_on"):
            _check_exceptions(name, getattr(self, name))
        self._refuse_without_effect()
        # Refuses bad values.
        self.backoff(DEFAULT_BACKOFF)

    def _refuse_without_effect(self) -> None:
        if self.delays is not None:
            for name, left_out in (("base", None), ("factor", 2), ("cap", None)):
                if (value := getattr(self, name)) != left_out:
                    what = "without effect beside delays, which says each delay by itself"
                    _refuse(f"retry.{name}", value, what, "give one of the two")
        if self.budget is None and self.budget_window is not None:
            _refuse("retry.budget_window", self.budget_window, "without effect", "give budget as well")

    def backoff(self, default: Backoff) -> Backoff:
        """Return the part of this rule that is stored with a job."""
        elapsed = None if self.max_elapsed is None else parse_duration(self.max_elapsed, field="retry.max_elapsed")
        rule = Backoff(
            growth=Growth.LISTED if self.delays else Growth.EXPONENTIAL,
            base=default.base if self.base is None else parse_duration(self.base, field="retry.base"),
            factor=float(self.factor),
            cap=default.cap if self.cap is None else parse_duration(self.cap, field="retry.cap"),
            jitter=default.jitter if self.jitter is None else self.jitter,
            delays=tuple(parse_duration(delay, field="retry.delays") for delay in self.delays or ()),
            max_elapsed=elapsed,
            budget=self.budget,
            budget_window=DEFAULT_BACKOFF.budget_window
            if self.budget_window is None
            else parse_duration(self.budget_window, field="retry.budget_window"),
        )
        return shared(rule)

    @property
    def names_exceptions(self) -> bool:
        """Whether it says which exceptions are permanent."""
        return self.on != (Exception,) or bool(self.give_up_on)


@dataclass(frozen=True, slots=True)
class RetryDefaults:
    """Retries of a job without a retry option: the settings of the process that submits it."""

    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    backoff: Backoff = DEFAULT_BACKOFF


PLAIN: Final = RetryDefaults()


class Follower(Protocol):
    """A task that can be called with one argument, which the job before it gives."""

    def call(self, value: Any, /) -> Call[Any]:  # noqa: ANN401 - a result of any type
        """Make a call without submitting it."""
        ...


class Options(TypedDict, total=False):
    """The options of a task or of one submission of it."""

    queue: str
    priority: int
    delay: Duration
    run_at: datetime
    expires: Duration
    timeout: Duration
    retry: Retry | int
    delivery: Delivery | Literal["at_least_once", "at_most_once"]
    idempotency_key: str
    #: A submission is answered with an earlier job of the same arguments that was made within this time.
    unique_for: Duration
    #: The arguments that make two submissions equal; for unique jobs all of them unless some are named.
    unique_by: Sequence[str]
    #: A text that makes two submissions equal, instead of arguments.
    unique_key: str
    #: The states in which an earlier job counts; without `unique_for`, for as long as it is in one of them.
    unique_states: Sequence[str]
    #: The job starts when no further submission came for this long, with the last one's arguments.
    debounce: Duration
    #: The longest time that a debounced job waits for further submissions.
    max_wait: Duration
    #: At most one job is made in this time; submissions in between are answered with it.
    throttle: Duration
    concurrency_key: str
    #: Of a task, the circuit breaker of its dependency, or its name. Of a submission, the name of one for this job.
    breaker: Breaker | str
    tags: Sequence[str]
    meta: Mapping[str, str]
    #: A call, or a task that takes the result of the job.
    on_success: Call[Any] | Follower | None
    #: A call, or a task that takes the failure of the job: a mapping with id, type, state, reason, error and payload.
    on_failure: Call[Any] | Follower | None
    #: The caller's own connection, in whose transaction the job is stored.
    tx: object


KNOWN: Final = frozenset(Options.__annotations__)
#: Options of a single submission: not of a task or a follow-up, which both make many jobs.
SINGLE_SUBMISSION: Final = ("run_at", "idempotency_key", "tx")


def retry_of(value: Retry | int) -> Retry:
    """Read a retry rule; a number is the number of attempts, as in `Retry(5)`."""
    if isinstance(value, Retry):
        return value
    return Retry(_read("retry", value, Attempts, "give the number of attempts, as in retry=5, or a Retry(…)"))


def refuse_exceptions(name: str, retry: Retry | int | None, defined: Retry | int | None = None) -> None:
    """Refuse a submission that says which exceptions are permanent: only the worker's definition of a task can."""
    if not isinstance(retry, Retry) or not retry.names_exceptions:
        return
    known = Retry() if defined is None else retry_of(defined)
    if (retry.on, retry.give_up_on) != (known.on, known.give_up_on):
        raise InvalidRequest(
            f"retry: `on` and `give_up_on` of task {name!r} cannot be changed for one submission, because exceptions"
            " are not stored with a job; give them to @app.task(retry=…)",
            field="retry",
        )


def control_in(options: Mapping[str, Any]) -> SubmitControl | None:
    """Read the options that control repeated submissions; refuse bad values and combinations, naming the option."""
    given = {name: options[name] for name in CONTROL_OPTIONS & options.keys() if options[name] is not None}
    if not given:
        return None
    control = control_of(**{name: _CONTROL_READERS[name](name, value) for name, value in given.items()})
    if control is not None and control.kind is UniqueKind.DEBOUNCE:
        for option in ("run_at", "delay"):
            if options.get(option) is not None:
                raise InvalidRequest(
                    f"{option}: cannot be combined with debounce, which decides when the job starts; give one of them",
                    field=option,
                )
    return control


def template_of(name: str, payload: str, options: Options, defaults: RetryDefaults = PLAIN) -> Template:
    """Make the template that options describe; refuse bad values, naming the option."""
    check_type_name(_read("name", name, UncheckedTypeName, "give the task's name, as in 'send_email'"), "name")
    template = Template(type=name, payload=payload, max_attempts=defaults.max_attempts, backoff=defaults.backoff)
    control_in(options)
    return changed(template, options, defaults)


def changed(template: Template, options: Options, defaults: RetryDefaults = PLAIN) -> Template:
    """Apply options to a template; refuse bad values, naming the option."""
    changes: dict[str, Any] = {}
    for name, value in options.items():
        read = _READERS.get(name) or _unknown(name)
        if value is not None:
            changes |= read(name, value, defaults)
    if options.get("breaker") is not None and options.get("concurrency_key") is not None:
        raise InvalidRequest(f"breaker: {BREAKER_IS_KEY}", field="breaker")
    if options.get("run_at") is not None and options.get("delay") is not None:
        raise InvalidRequest("delay: give either run_at or delay, not both", field="delay")
    if changes:
        template = replace(template, **changes)
        check(template)
    if template.delivery is Delivery.AT_MOST_ONCE and template.max_attempts != 1:
        if "retry" in options and retry_of(options["retry"]).max_attempts is not None:
            message = "a task with delivery at_most_once starts once; leave retry out, or give retry=1"
            raise InvalidRequest(f"retry: {message}", field="retry")
        template = replace(template, max_attempts=1)
    return template


def merged(options: Options, others: Options) -> Options:
    """Override options with others. None removes one; run_at and delay replace each other."""
    both: dict[str, Any] = {**options, **others}
    if not CONTROL_OPTIONS.isdisjoint(others):
        both = overridden(options, others)
    for name, other in (("run_at", "delay"), ("delay", "run_at")):
        if others.get(name) is not None and other not in others:
            both.pop(other, None)
    result: Any = {name: value for name, value in both.items() if value is not None}
    kept: Options = result
    return kept


def check_defaults(name: str, options: Options) -> None:
    """Refuse options that cannot be defaults of a task, only options of one submission."""
    template_of(name, "null", options)
    for option in SINGLE_SUBMISSION:
        if options.get(option) is not None:
            message = f"{option}: it belongs to one submission, not to a task; give it there, as in .using({option}=…)"
            raise InvalidRequest(f"task {name!r}: {message}", field=option)


def _read(name: str, value: Any, form: Any, remedy: str) -> Any:  # noqa: ANN401 - any option
    """Convert a value to a type of the HTTP API, or refuse it."""
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        _refuse(name, value, f"not valid ({error})", remedy)


def _refuse(name: str, value: object, what: str, remedy: str) -> NoReturn:
    shown = repr(value)
    if len(shown) > _LONGEST_SHOWN:
        shown = f"{shown[:_LONGEST_SHOWN]}…"
    raise InvalidRequest(f"{name}: {shown} is {what}; {remedy}", field=name)


def _unknown(name: str) -> NoReturn:
    close = get_close_matches(name, KNOWN, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise InvalidRequest(f"{name!r} is not an option{hint}; known options: {', '.join(sorted(KNOWN))}", field=name)


def _is_filled(values: object) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str) and len(values) > 0


def are_exceptions(kinds: object) -> bool:
    """Whether a value is a tuple of exception classes."""
    return isinstance(kinds, tuple) and all(
        isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds
    )


def _check_exceptions(name: str, kinds: object) -> None:
    if not are_exceptions(kinds):
        remedy = f"give exception classes in parentheses, as in {name}=(ValueError,)"
        _refuse(f"retry.{name}", kinds, "not a tuple of exception classes", remedy)


#: Given the name and the value of an option, the changed fields of the template.
_Reader = Callable[[str, Any, RetryDefaults], dict[str, Any]]


def _converted(form: Any, remedy: str) -> _Reader:  # noqa: ANN401 - any form
    return lambda name, value, _: {name: _read(name, value, form, remedy)}


def _queue(name: str, value: Any, _: RetryDefaults) -> dict[str, Any]:  # noqa: ANN401 - any option
    return {name: check_queue_name(_read(name, value, UncheckedQueueName, 'name a queue, as in queue="mail"'), name)}


def _duration(name: str, value: Any, _: RetryDefaults) -> dict[str, Any]:  # noqa: ANN401 - any option
    return {name: parse_duration(value, field=name)}


def _positive_duration(name: str, value: Any, _: RetryDefaults) -> dict[str, Any]:  # noqa: ANN401 - any option
    return {name: positive_duration(parse_duration(value, field=name).total_seconds(), name)}


def _time(name: str, value: Any, _: RetryDefaults) -> dict[str, Any]:  # noqa: ANN401 - any option
    remedy = "give a datetime with its zone, as in datetime.now(UTC) + timedelta(hours=1)"
    if not isinstance(value, datetime):
        _refuse(name, value, "not a datetime", remedy)
    if value.tzinfo is None:
        _refuse(name, value, "a time without a zone", remedy)
    moment_of(value, name)
    return {}


def _retry(_: str, value: Any, defaults: RetryDefaults) -> dict[str, Any]:  # noqa: ANN401 - any option
    retry = retry_of(value)
    attempts = defaults.max_attempts if retry.max_attempts is None else retry.max_attempts
    return {"max_attempts": attempts, "backoff": retry.backoff(defaults.backoff)}


def _idempotency_key(name: str, value: Any, _: RetryDefaults) -> dict[str, Any]:  # noqa: ANN401 - any option
    _read(name, value, Name, "give a text that is unique for each submission, or leave it out")
    return {}


def _tags(name: str, value: Any, _: RetryDefaults) -> dict[str, Any]:  # noqa: ANN401 - any option
    example = value if isinstance(value, str) and value else "mail"
    return {name: tuple(dict.fromkeys(_read(name, value, Tags, f'give a list of words, as in tags=["{example}"]')))}


def _meta(name: str, value: Any, _: RetryDefaults) -> dict[str, Any]:  # noqa: ANN401 - any option
    return {name: _read(name, value, Metadata, 'give text for text, as in meta={"customer": "7"}') or NO_META}


def _follow_up(name: str, value: Any, defaults: RetryDefaults) -> dict[str, Any]:  # noqa: ANN401 - any option
    make = getattr(value, "template", None)
    # A task has an attribute `template` too, which is not callable: its only argument comes from the job before it.
    if isinstance(make, Template) and getattr(value, "takes_one_argument", False):
        make = value.taking(_FOLLOW_UP_TAKES[name]).template
    if not callable(make):
        remedy = "give a call, as in task.call(…), or a task that can be called with one argument"
        _refuse(name, value, "not a call of a task", remedy)
    for option in SINGLE_SUBMISSION:
        if value.options.get(option) is not None:
            raise InvalidRequest(
                f"{name}: a follow-up takes no {option}: it is created when its job finishes", field=name
            )
    for option in sorted(CONTROL_OPTIONS & value.options.keys()):
        raise InvalidRequest(
            f"{name}: a follow-up takes no {option}: each finished job makes its own; leave it out, as in"
            f" .using({option}=None)",
            field=name,
        )
    return {name: make(defaults)}


_FOLLOW_UP_TAKES: Final = {"on_success": Takes.RESULT, "on_failure": Takes.FAILURE}


def _breaker(name: str, value: Any, _: RetryDefaults) -> dict[str, Any]:  # noqa: ANN401 - any option
    """Give one job a breaker of its own, which is its concurrency key. That of a task is no default of its jobs."""
    if not isinstance(value, str):
        _refuse(name, value, "not the name of a breaker", 'give a name, as in breaker="stripe"')
    check_breaker_name(value)
    return {"concurrency_key": breaker_limit(value)}


def _unchanged(_: str, __: Any, ___: RetryDefaults) -> dict[str, Any]:  # noqa: ANN401 - any option
    """Accept an option that is used when the job is submitted."""
    return {}


def _read_names(name: str, value: Any) -> Any:  # noqa: ANN401 - any option
    remedy = 'give names of arguments, as in unique_by=["customer"]'
    return _read(name, value, Annotated[list[Name], msgspec.Meta(min_length=1, max_length=32)], remedy)


def _read_states(name: str, value: Any) -> Any:  # noqa: ANN401 - any option
    remedy = f'give some of {", ".join(State)}, as in unique_states=["pending", "running"]'
    listed = list(value) if isinstance(value, tuple | set | frozenset) else value
    return _read(name, listed, Annotated[list[State], msgspec.Meta(min_length=1)], remedy)


def _read_period(name: str, value: Any) -> Any:  # noqa: ANN401 - any option
    return parse_duration(value, field=name)


#: Given the name and the value of an option that controls repeated submissions, the value as the core has it.
_CONTROL_READERS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "unique_for": _read_period,
    "unique_by": _read_names,
    "unique_key": lambda name, value: _read(name, value, Name, "give a text of at most 200 characters"),
    "unique_states": _read_states,
    "debounce": _read_period,
    "max_wait": _read_period,
    "throttle": _read_period,
}

_READERS: Final[Mapping[str, _Reader]] = {
    **dict.fromkeys(_CONTROL_READERS, _unchanged),
    "queue": _queue,
    "priority": _converted(Priority, "give a number from 1 (least urgent) to 10"),
    "delay": _duration,
    "run_at": _time,
    "expires": _duration,
    "timeout": _positive_duration,
    "retry": _retry,
    "delivery": _converted(Delivery, "give 'at_least_once' or 'at_most_once'"),
    "idempotency_key": _idempotency_key,
    "breaker": _breaker,
    "concurrency_key": _converted(Name, "give a text; jobs with the same text run one at a time"),
    "tags": _tags,
    "meta": _meta,
    "on_success": _follow_up,
    "on_failure": _follow_up,
    "tx": _unchanged,
}

"""Control of repeated submissions: unique jobs, throttle and debounce.

All three are one mechanism: a submission has a key, and the store keeps which job took that key last. In the
transaction of the insert the store reads that job, and `decide` chooses how the new submission is answered:

- unique: an earlier job of the key counts while it is in one of some states, and for a period after its creation;
- throttle: an earlier job counts for a period after its creation, in whatever state;
- debounce: an earlier job that no worker has taken yet gets the new payload, and waits anew, at most for `max_wait`.

A submission that meets a job that counts makes no job; its answer is that job. Keys of different kinds, and of jobs of
different types or queues, never meet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, NoReturn

from rota.core.envelope import is_encrypted
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.lifecycle import DUE_STATES, FINISHED, State

#: The states in which a unique job counts unless others are named: an earlier job that failed for good or was
#: cancelled does not keep a new one out.
DEFAULT_STATES: Final = frozenset(State) - FINISHED | {State.COMPLETED}
#: A job whose payload a debounced submission may replace is in one of these states, and was never claimed.
REPLACEABLE: Final = DUE_STATES | {State.SCHEDULED}
#: The key in a job's meta under which stores keep the name of its unique key.
UNIQUE: Final = "rota.unique"
#: The members of a payload that the Python API writes.
_CALL: Final = frozenset({"args", "kwargs"})


class UniqueKind(StrEnum):
    """How repeated submissions are treated."""

    UNIQUE = "unique"
    THROTTLE = "throttle"
    DEBOUNCE = "debounce"


class KeyDecision(StrEnum):
    """The decision about a submission with a key."""

    #: No earlier job counts: a job is made and takes the key.
    FREE = "free"
    #: An earlier job counts: it is the answer.
    HELD = "held"
    #: An earlier job waits: it gets the new payload and is the answer.
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """The key of one submission, and when an earlier job of this key counts.

    `period` is how long after its creation, None for as long as it is in one of `states`; for a debounce it is how long
    the job waits after the last submission.
    """

    kind: UniqueKind
    text: str
    period: timedelta | None = None
    states: frozenset[State] = DEFAULT_STATES
    max_wait: timedelta | None = None

    def name_for(self, job_type: str, queue: str) -> tuple[str, str]:
        """Return scope and key under which stores keep it.

        The queue is part of it: a caller that may use one queue must neither see nor change jobs in another.
        """
        digest = blake2b(f"{queue}\0{job_type}\0{self.text}".encode(), digest_size=16).hexdigest()
        return f"rota {self.kind}", digest

    @property
    def keep(self) -> timedelta:
        """How long the job is kept after its creation even if its retention is shorter."""
        return timedelta(0) if self.kind is UniqueKind.DEBOUNCE or self.period is None else self.period


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """The job that took a key last."""

    job_id: JobId
    state: State
    fence: int
    created_at: datetime


def decide(key: UniqueKey, holder: KeyHolder | None, now: datetime) -> KeyDecision:
    """Decide about a submission, given the job that took its key last. None if there is none, or it is deleted."""
    if holder is None:
        return KeyDecision.FREE
    if key.kind is UniqueKind.DEBOUNCE:
        return KeyDecision.REPLACE if holder.state in REPLACEABLE and not holder.fence else KeyDecision.FREE
    is_recent = key.period is None or now < holder.created_at + key.period
    if key.kind is UniqueKind.THROTTLE:
        return KeyDecision.HELD if is_recent else KeyDecision.FREE
    return KeyDecision.HELD if is_recent and holder.state in key.states else KeyDecision.FREE


def debounced_time(key: UniqueKey, run_at: datetime, holder: KeyHolder) -> datetime:
    """Return the time of a waiting job after another submission, which alone would have been due at `run_at`."""
    return run_at if key.max_wait is None else min(run_at, holder.created_at + key.max_wait)


@dataclass(frozen=True, slots=True)
class SubmitControl:
    """The options of a task or a submission from which the key of each submission is made.

    `by` names arguments: submissions with equal values have the same key. Without `by` and `key` all arguments count
    for unique jobs, and none for throttle and debounce.
    """

    kind: UniqueKind
    period: timedelta | None
    by: tuple[str, ...] = ()
    key: str | None = None
    states: frozenset[State] = DEFAULT_STATES
    max_wait: timedelta | None = None

    def key_of(self, payload: str, names: Sequence[str] = (), defaults: Mapping[str, Any] | None = None) -> UniqueKey:
        """Make the key of a submission with this payload. `names` are those of the function's positional parameters."""
        text = self._text(payload, names, defaults or {})
        return UniqueKey(self.kind, text, self.period, self.states, self.max_wait)

    def options(self) -> dict[str, Any]:
        """Return the options of which this is made."""
        period = {UniqueKind.UNIQUE: "unique_for", UniqueKind.DEBOUNCE: "debounce", UniqueKind.THROTTLE: "throttle"}
        given = {
            period[self.kind]: self.period,
            "unique_by": self.by or None,
            "unique_key": self.key,
            "unique_states": sorted(self.states) if self.kind is UniqueKind.UNIQUE else None,
            "max_wait": self.max_wait,
        }
        return {name: value for name, value in given.items() if value is not None}

    def _text(self, payload: str, names: Sequence[str], defaults: Mapping[str, Any]) -> str:
        if self.key is not None:
            return self.key
        if is_encrypted(payload) and (self.by or self.kind is UniqueKind.UNIQUE):
            raise InvalidRequest(
                "unique_by: the payload is encrypted, so its arguments cannot be compared here; give unique_key",
                field="unique_by",
            )
        if not self.by:
            return _digest(arguments_of(payload, names)) if self.kind is UniqueKind.UNIQUE else "*"
        given = arguments_of(payload, names)
        if not isinstance(given, dict):
            raise InvalidRequest(
                "unique_by: the payload is no JSON object, so it has no arguments by name; give unique_key instead",
                field="unique_by",
            )
        values = {**defaults, **given}
        for name in self.by:
            if name not in values:
                raise InvalidRequest(
                    f"unique_by: the payload has no argument {name!r}; give it by its name, or give unique_key instead",
                    field="unique_by",
                )
        return _digest({name: values[name] for name in self.by})


#: Options of one kind of control; those of another kind replace them.
_GROUPS: Final = (
    frozenset({"unique_for", "unique_states"}),
    frozenset({"debounce", "max_wait"}),
    frozenset({"throttle"}),
)
_KEYS: Final = frozenset({"unique_by", "unique_key"})
#: Options that say how repeated submissions are treated; the others need one of them.
_PERIODS: Final = ("unique_for", "unique_states", "debounce", "throttle")
#: All options of this module.
CONTROL_OPTIONS: Final = frozenset().union(*_GROUPS, _KEYS)


def overridden(options: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Override control options with others: another kind of control replaces the former, another key the former key."""
    given = {name for name, value in others.items() if value is not None}
    dropped: set[str] = set()
    for group in _GROUPS:
        if not given.isdisjoint(group):
            dropped |= CONTROL_OPTIONS - _KEYS - group
    if not given.isdisjoint(_KEYS):
        dropped |= _KEYS
    both = {**{name: value for name, value in options.items() if name not in dropped - given}, **others}
    if not any(both.get(name) is not None for name in _PERIODS):
        # The control was removed by None, and with it what belongs to it.
        both = {name: value for name, value in both.items() if name in given or name not in CONTROL_OPTIONS}
    return both


def control_of(
    *,
    unique_for: timedelta | None = None,
    unique_by: Sequence[str] | None = None,
    unique_key: str | None = None,
    unique_states: Sequence[State] | None = None,
    debounce: timedelta | None = None,
    max_wait: timedelta | None = None,
    throttle: timedelta | None = None,
) -> SubmitControl | None:
    """Combine the options; None if they set no control. A period of 0 is none.

    Refuses what contradicts or lacks another option.
    """
    periods = {"unique_for": unique_for, "debounce": debounce, "throttle": throttle}
    given = [name for name, period in periods.items() if period]
    if unique_states is not None and not unique_for:
        given.insert(0, "unique_states")
    if len(given) > 1:
        _refuse(given[1], f"cannot be combined with {given[0]}; give one of them")
    if unique_by and unique_key is not None:
        _refuse("unique_key", "cannot be combined with unique_by; give one of them")
    if max_wait is not None and not debounce:
        _refuse("max_wait", "belongs to debounce; give debounce as well")
    if max_wait is not None and debounce and max_wait < debounce:
        _refuse("max_wait", "must not be shorter than debounce")
    if not given:
        _refuse_lone(unique_by, unique_key, is_off=any(period is not None for period in periods.values()))
        return None
    states = DEFAULT_STATES if unique_states is None else frozenset(unique_states)
    return SubmitControl(
        _KINDS[given[0]],
        None if given[0] == "unique_states" else periods[given[0]],
        tuple(sorted(set(unique_by or ()))),
        unique_key,
        states,
        max_wait,
    )


_KINDS: Final = {
    "unique_for": UniqueKind.UNIQUE,
    "unique_states": UniqueKind.UNIQUE,
    "debounce": UniqueKind.DEBOUNCE,
    "throttle": UniqueKind.THROTTLE,
}


def _refuse_lone(unique_by: Sequence[str] | None, unique_key: str | None, *, is_off: bool) -> None:
    """Refuse a key without a kind of control, unless that was turned off."""
    for option, is_given in (("unique_by", bool(unique_by)), ("unique_key", unique_key is not None)):
        if is_given and not is_off:
            _refuse(option, "says what is repeated, not how to treat it; give unique_for, throttle or debounce as well")


def arguments_of(payload: str, names: Sequence[str] = ()) -> Any:  # noqa: ANN401 - JSON
    """Return the arguments of a payload by name; a payload that is no call or object, as it is.

    A call as the Python API writes it is brought to the form that other programs send: an object of the arguments.
    """
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return {"": payload}
    if not (isinstance(value, dict) and value.keys() == _CALL):
        return value
    args, kwargs = value["args"], value["kwargs"]
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        return value
    named = dict(zip(names, args, strict=False))
    rest = args[len(named) :]
    return {**named, **kwargs, **({"*": rest} if rest else {})}


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _refuse(option: str, why: str) -> NoReturn:
    raise InvalidRequest(f"{option}: {why}", field=option)

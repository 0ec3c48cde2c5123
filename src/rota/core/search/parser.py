"""Parser of the query language for jobs.

A search is a list of terms, all of which must hold: ``name:value``, with several values separated by commas (one of
them must hold), or a bare word, the beginning of an id or of a type. A minus before a term negates it. Names take stars
(``type:mail*``); quotes make a value literal. Ages are durations: ``created:>2h`` is older than two hours,
``created:<2h`` younger; a date or time is compared as such: ``created:>2026-01-31`` is later.

The parser takes one pass over the text. Conditions for which stores have an index become fields of `Search`, all
others become terms that are evaluated on the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest, JobNotFound
from rota.core.ids import JobId, ScheduleId, to_number
from rota.core.lifecycle import FINISHED, WAITING, State
from rota.core.search.scanner import Part, RawTerm, scan, wrong
from rota.core.search.terms import (
    COMPARISONS,
    ErrorTerm,
    LateTerm,
    NamePattern,
    NameTerm,
    NotTerm,
    NumberTerm,
    PayloadTerm,
    ScheduleTerm,
    Term,
    TimeTerm,
    WordTerm,
)
from rota.core.value import value

MOST_CHARACTERS: Final = 2_000
MOST_TERMS: Final = 50
#: Each of them is compared with each name of a job: 2,000 characters have room for a thousand.
MOST_VALUES: Final = 100
#: Beyond this length no close word is suggested: comparing takes time that grows with the length.
_LONGEST_HINTED: Final = 40
#: Largest number that is compared; stores have none beyond it.
_LARGEST_NUMBER: Final = 2**63 - 1

#: The searchable fields, with an example of each.
FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "status": "status:dead,retrying",
        "type": "type:mail*",
        "queue": "queue:default",
        "tag": "tag:customer-42",
        "worker": "worker:w1",
        "error": 'error:"connection refused"',
        "attempts": "attempts:>1",
        "priority": "priority:>=7",
        "created": "created:<2h",
        "finished": "finished:<1d",
        "late": "late:>30s",
        "payload": "payload.user.id:42",
        "schedule": "schedule:nightly",
        "fingerprint": "fingerprint:0123456789abcdef",
        "id": "id:0ajk*",
    }
)
STATUS_WORDS: Final[Mapping[str, tuple[State, ...]]] = MappingProxyType(
    {
        **{state.value: (state,) for state in State},
        "waiting": tuple(state for state in State if state in WAITING),
        "finished": tuple(state for state in State if state in FINISHED),
        "unfinished": tuple(state for state in State if state not in FINISHED),
        "any": tuple(State),
    }
)


@value
class Search:
    """A parsed search: conditions that stores have indexes for, and terms for the rest.

    `schedule` is the name or id of a schedule, which the store has to look up. `job_id` is a bare word that is a whole
    id. If no job can match, `states` is empty and `is_empty` is set.
    """

    states: tuple[State, ...] = ()
    types: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    tag: str | None = None
    worker: str | None = None
    fingerprint: str | None = None
    schedule: str | None = None
    created_from: datetime | None = None
    created_until: datetime | None = None
    job_id: JobId | None = None
    is_empty: bool = False
    terms: tuple[Term, ...] = ()


@dataclass(slots=True)
class _Draft:
    """A search while it is parsed."""

    now: datetime
    words: Mapping[str, tuple[State, ...]]
    indexed: dict[str, Any] = field(default_factory=dict)
    terms: list[Term] = field(default_factory=list)

    def add(self, raw: RawTerm, term: Term) -> None:
        self.terms.append(NotTerm(term) if raw.is_negated else term)

    def add_index(self, name: str, content: object) -> bool:
        """Use an index for a condition, unless another condition uses it already."""
        if name in self.indexed:
            return False
        self.indexed[name] = content
        return True


def parse_search(text: str, now: datetime, *, status_words: Mapping[str, tuple[State, ...]] = STATUS_WORDS) -> Search:
    """Parse a search; refuse what cannot be understood, naming position and remedy. Ages count back from `now`."""
    if len(text) > MOST_CHARACTERS:
        raise wrong(MOST_CHARACTERS, f"the search is longer than {MOST_CHARACTERS} characters; shorten it")
    draft, values = _Draft(now, status_words), 0
    for number, raw in enumerate(scan(text)):
        values += len(raw.parts)
        if number >= MOST_TERMS:
            raise raw.refused(f"there are more than {MOST_TERMS} terms; leave some out")
        if values > MOST_VALUES:
            raise raw.refused(f"there are more than {MOST_VALUES} values; leave some out")
        if raw.field is None:
            _word(draft, raw)
            continue
        read = _READERS.get(raw.field)
        if read is None or (raw.path and read is not _payload):
            raise raw.refused(f"{raw.field[:40]!r} cannot be searched for{_hint(raw.field, list(FIELDS))}")
        read(draft, raw)
    states = draft.indexed.get("states")
    return Search(**draft.indexed, terms=tuple(draft.terms), is_empty=states == ())


def _word(draft: _Draft, raw: RawTerm) -> None:
    """Read a bare word: the beginning of an id or of a type."""
    if len(raw.parts) > 1:
        raise raw.refused("a comma separates the values of one name, as in type:mail,report; write name:value")
    word = raw.parts[0].text
    if not word:
        raise raw.refused("an empty word matches every job; leave it out")
    if "*" in word and not raw.parts[0].is_quoted:
        draft.add(raw, NameTerm("type", (NamePattern(word, is_exact=False),)))
        return
    if not raw.is_negated and (job_id := _id_of(word)) is not None:
        draft.add_index("job_id", job_id)
    draft.add(raw, WordTerm(word))


def _id_of(text: str) -> JobId | None:
    try:
        return JobId(to_number(text))
    except JobNotFound:
        return None


def _status(draft: _Draft, raw: RawTerm) -> None:
    selected: set[State] = set()
    for part in raw.parts:
        key = part.text.strip().lower().replace("-", "_")
        if key not in draft.words:
            hint = _hint(key, list(draft.words))
            raise raw.refused(f"{part.text[:40]!r} is not a status{hint}; there are {', '.join(State)}")
        # An empty tuple means all states, as the words `any` and `all` of the API's filters do.
        selected.update(draft.words[key] or State)
    kept = set(State) - selected if raw.is_negated else selected
    before = draft.indexed.get("states")
    states = tuple(state for state in State if state in kept and (before is None or state in before))
    if before is not None or len(states) < len(State):
        draft.indexed["states"] = states


def _names(name: str, index: str, *, is_list: bool = False) -> Callable[[_Draft, RawTerm], None]:
    """Make the reader of a field with names; the store has an index for whole names."""

    def read(draft: _Draft, raw: RawTerm) -> None:
        patterns = tuple(_pattern(raw, part) for part in raw.parts)
        is_whole = not raw.is_negated and all(pattern.is_exact for pattern in patterns)
        if is_whole and (is_list or len(patterns) == 1):
            texts = tuple(pattern.text for pattern in patterns)
            if draft.add_index(index, texts if is_list else texts[0]):
                return
        draft.add(raw, NameTerm(name, patterns))

    return read


def _pattern(raw: RawTerm, part: Part) -> NamePattern:
    if not part.text:
        raise raw.refused(f"{raw.field}: a value is empty; write {FIELDS[raw.field or 'type']}")
    return NamePattern(part.text, is_exact=part.is_quoted or "*" not in part.text)


def _id(draft: _Draft, raw: RawTerm) -> None:
    """Read an id, or its beginning with a star."""
    patterns = tuple(_pattern(raw, part) for part in raw.parts)
    if len(patterns) == 1 and not raw.is_negated and (job_id := _id_of(patterns[0].text)) is not None:
        draft.add_index("job_id", job_id)
    draft.add(raw, NameTerm("id", patterns))


def _schedule(draft: _Draft, raw: RawTerm) -> None:
    text = _only(raw).text
    if raw.is_negated:
        number = _id_of(text)
        if number is None:
            raise raw.refused("-schedule: takes the id of a schedule; `rota schedules list` shows it")
        draft.add(raw, ScheduleTerm(ScheduleId(number)))
    elif not draft.add_index("schedule", text):
        raise raw.refused("schedule: is given twice; a job has one schedule, leave one out")


def _error(draft: _Draft, raw: RawTerm) -> None:
    draft.add(raw, ErrorTerm(_only(raw).text.casefold()))


def _number(name: str) -> Callable[[_Draft, RawTerm], None]:
    def read(draft: _Draft, raw: RawTerm) -> None:
        comparison, text = _compared(raw)
        if not (text.isascii() and text.isdigit()) or int(text[:20]) > _LARGEST_NUMBER:
            raise raw.refused(f"{name}: {text[:40]!r} is not a number; write {FIELDS[name]}")
        draft.add(raw, NumberTerm(name, comparison, int(text[:20])))

    return read


def _created(draft: _Draft, raw: RawTerm) -> None:
    term = _time_term(draft, raw, "created_at")
    bound = {">=": "created_from", "<": "created_until"}.get(term.comparison)
    if raw.is_negated or bound is None or not draft.add_index(bound, term.moment):
        draft.add(raw, term)


def _finished(draft: _Draft, raw: RawTerm) -> None:
    draft.add(raw, _time_term(draft, raw, "finished_at"))


def _late(draft: _Draft, raw: RawTerm) -> None:
    comparison, text = _compared(raw)
    if comparison == "=":
        raise raw.refused("late: write a duration with < or >, as in late:>30s")
    try:
        draft.add(raw, LateTerm(comparison, parse_duration(text, field="late"), draft.now))
    except InvalidRequest:
        raise raw.refused(f"late: {text[:40]!r} is not a duration; write late:>30s") from None


def _payload(draft: _Draft, raw: RawTerm) -> None:
    path = tuple(raw.path.split("."))
    if not all(path):
        raise raw.refused("payload: write the keys that lead to a value, as in payload.user.id:42")
    draft.add(raw, PayloadTerm(path, tuple(_pattern(raw, part) for part in raw.parts)))


def _time_term(draft: _Draft, raw: RawTerm, name: str) -> TimeTerm:
    """Read an age (``>2h``: older) or a moment (``>2026-01-31``: later)."""
    comparison, text = _compared(raw)
    if comparison == "=":
        example = f"{raw.field}:<2h (in the last two hours) or {raw.field}:>2026-01-31 (after that day began)"
        raise raw.refused(f"{raw.field}: write an age or a time with < or >, as in {example}")
    try:
        age = parse_duration(text, field=raw.field or "")
    except InvalidRequest:
        return TimeTerm(name, comparison, _moment(raw, text))
    # Older means earlier, so the comparison turns round. An age before the year 1 is older than every job.
    earliest = datetime.min.replace(tzinfo=UTC)
    moment = earliest if age >= draft.now - earliest else draft.now - age
    return TimeTerm(name, {">": "<", ">=": "<=", "<": ">=", "<=": ">="}[comparison], moment)


def _moment(raw: RawTerm, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    problem = f"{raw.field}: {text[:40]!r} is neither a duration as in 2h or 1d12h nor a time as in 2026-01-31"
    raise raw.refused(f"{problem} or 2026-01-31T08:00Z")


def _compared(raw: RawTerm) -> tuple[str, str]:
    """Cut a comparison off a value; without one, it is equality."""
    text = _only(raw).text
    for sign in COMPARISONS:
        if text.startswith(sign):
            return sign, text[len(sign) :]
    return "=", text


def _only(raw: RawTerm) -> Part:
    if len(raw.parts) != 1 or not raw.parts[0].text:
        raise raw.refused(f"{raw.field}: takes one value; in quotes it may contain commas and spaces")
    return raw.parts[0]


def _hint(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word, known, n=1) if len(word) <= _LONGEST_HINTED else []
    return f"; did you mean '{close[0]}'?" if close else f"; there are {', '.join(known)}"


_READERS: Final[Mapping[str, Callable[[_Draft, RawTerm], None]]] = MappingProxyType(
    {
        "status": _status,
        "state": _status,
        "type": _names("type", "types", is_list=True),
        "queue": _names("queue", "queues", is_list=True),
        "tag": _names("tag", "tag"),
        "worker": _names("worker", "worker"),
        "fingerprint": _names("fingerprint", "fingerprint"),
        "schedule": _schedule,
        "error": _error,
        "attempts": _number("attempts"),
        "priority": _number("priority"),
        "created": _created,
        "finished": _finished,
        "late": _late,
        "payload": _payload,
        "id": _id,
    }
)

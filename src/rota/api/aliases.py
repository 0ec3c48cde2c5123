"""Words of older systems for states and outcomes, accepted by the API and unknown below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rota.api.errors import invalid
from rota.api.json_body import did_you_mean
from rota.core.lifecycle import FINISHED, WAITING, State

_ALL: Final = tuple(State)

#: The states that each word stands for; canonical words first.
STATUS_WORDS: Final[dict[str, tuple[State, ...]]] = {
    **{state.value: (state,) for state in State},
    "done": (State.COMPLETED,),
    "success": (State.COMPLETED,),
    "succeeded": (State.COMPLETED,),
    "complete": (State.COMPLETED,),
    "failed": (State.RETRYING, State.DEAD),
    "failure": (State.RETRYING, State.DEAD),
    "error": (State.RETRYING, State.DEAD),
    "retry": (State.RETRYING,),
    "dead_letter": (State.DEAD,),
    "dlq": (State.DEAD,),
    "canceled": (State.CANCELLED,),
    "in_progress": (State.RUNNING,),
    "processing": (State.RUNNING,),
    "leased": (State.RUNNING,),
    "active": (State.RUNNING,),
    "delayed": (State.SCHEDULED,),
    "ready": (State.PENDING,),
    "waiting": tuple(state for state in _ALL if state in WAITING),
    "finished": tuple(state for state in _ALL if state in FINISHED),
    "unfinished": tuple(state for state in _ALL if state not in FINISHED),
    "any": (),
    "all": (),
}

#: Words for the outcome of a job in `POST /jobs/{id}/complete`.
SUCCESS_WORDS: Final = frozenset({"completed", "complete", "success", "succeeded", "done", "ok"})
FAILURE_WORDS: Final = frozenset({"failed", "failure", "error", "dead", "retrying"})


def states_of(text: str, field: str = "status") -> tuple[State, ...]:
    """Parse words for states, separated by commas, in any case."""
    states: dict[State, None] = {}
    for word in text.split(","):
        key = word.strip().lower().replace("-", "_").replace(" ", "_")
        matches = STATUS_WORDS.get(key)
        if matches is None:
            problem = f"{word.strip()[:40]!r} is not a status{did_you_mean(key, list(STATUS_WORDS))}"
            raise invalid([(field, f"{problem}; there are {', '.join(State)}")])
        if not matches:
            return ()
        states.update(dict.fromkeys(matches))
    return tuple(states)


def choices_of(text: str, known: Sequence[str], field: str) -> list[str]:
    """Parse words separated by commas; refuse unknown ones."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known:
            raise invalid(
                [(field, f"{word[:40]!r} is unknown{did_you_mean(word, list(known))}; there are {', '.join(known)}")]
            )
    return words


def unquoted_key(header: str | None) -> str | None:
    """Parse an `Idempotency-Key`: in quotes (RFC 8941) or bare, which mean the same."""
    if header is None:
        return None
    text = header.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return text

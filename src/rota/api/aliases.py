"""The words of older systems. They are accepted and shown here, and unknown below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rota.api.errors import invalid
from rota.api.reading import meant
from rota.core.lifecycle import FINISHED, WAITING, State

_ALL: Final = tuple(State)

#: What each word for a status means; canonical words first.
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

#: What a worker of seed 1 may say about how a job went.
SUCCESS_WORDS: Final = frozenset({"completed", "complete", "success", "succeeded", "done", "ok"})
FAILURE_WORDS: Final = frozenset({"failed", "failure", "error", "dead", "retrying"})


def states_of(text: str, field: str = "status") -> tuple[State, ...]:
    """Read words for states, one or several with commas between, in any case."""
    states: dict[State, None] = {}
    for word in text.split(","):
        key = word.strip().lower().replace("-", "_").replace(" ", "_")
        found = STATUS_WORDS.get(key)
        if found is None:
            said = f"{word.strip()[:40]!r} is no status{meant(key, list(STATUS_WORDS))}"
            raise invalid([(field, f"{said}; there are {', '.join(State)}")])
        if not found:
            return ()
        states.update(dict.fromkeys(found))
    return tuple(states)


def words_of(text: str, known: Sequence[str], field: str) -> list[str]:
    """Read words with commas between; refuse those that are unknown."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known:
            raise invalid(
                [(field, f"{word[:40]!r} is unknown{meant(word, list(known))}; there are {', '.join(known)}")]
            )
    return words


def bare_key(header: str | None) -> str | None:
    """Read an `Idempotency-Key`: as text in quotes (RFC 8941) or bare, which mean the same."""
    if header is None:
        return None
    text = header.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return text

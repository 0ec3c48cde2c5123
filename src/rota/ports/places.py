"""Places: where there may be something new. A queue's name is one, and there are two more.

Whoever has written says at which places; whoever waits says at which it listens. A hint, and never the truth.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

#: In place of a queue, when something was written that has its time: whoever keeps the time may listen.
TIMETABLE: Final = "\0timetable"
#: Listened to by whoever wants to hear of work in every queue there is; told by one who does not know in which it is.
EVERY_QUEUE: Final = "\0every queue"
#: Told by one who knows nothing but that something has changed.
ANYWHERE: Final = frozenset({EVERY_QUEUE, TIMETABLE})
#: How a word among places begins that is none, see `numbered`.
_NUMBER: Final = "\0number "
#: Told of a job that was somebody's as soon as it was stored: for who listens to every queue, and nobody else.
BROUGHT: Final = "\0brought"
#: How the place begins where a claim that stays is answered, see `answer_to`.
_ANSWER: Final = "\0answer to "


def answer_to(claim_id: str) -> str:
    """Give the place at which whoever asked by this name is told that a job was leased to it, and nobody else is."""
    return f"{_ANSWER}{claim_id}"


def numbered(number: int) -> str:
    """Give the word that is told beside a queue where it is one job: by it those who hear agree who goes first."""
    return f"{_NUMBER}{number}"


def number_of(places: Collection[str]) -> int | None:
    """Give the number that a job was told of with; None if more than that was told, or nobody knows how much."""
    words = [word for word in places if word.startswith(_NUMBER)]
    # A queue and a number.
    return int(words[0].removeprefix(_NUMBER)) if words and len(places) == 2 else None  # noqa: PLR2004


def without_number(places: Collection[str]) -> frozenset[str]:
    """Give the places themselves."""
    return frozenset(word for word in places if not word.startswith(_NUMBER))

"""Scanner of the query language: cuts a text into terms, each with its position, in one pass."""

from __future__ import annotations

from rota.core.errors import InvalidRequest
from rota.core.value import value


@value
class Part:
    """One of the values of a term, separated by commas."""

    text: str
    is_quoted: bool = False


@value
class RawTerm:
    """A term as it was written: ``-field:value,value`` or a bare word (no field)."""

    position: int
    field: str | None
    parts: tuple[Part, ...]
    is_negated: bool = False
    #: What follows the field behind a dot: the path into a payload.
    path: str = ""

    def refused(self, problem: str) -> InvalidRequest:
        """Make the error for this term; it names the position, counted from 1."""
        return wrong(self.position, problem)


def wrong(position: int, problem: str) -> InvalidRequest:
    """Make the error for a place in a search."""
    return InvalidRequest(f"q: at character {position + 1}: {problem}", field="q")


def scan(text: str) -> list[RawTerm]:
    """Cut a search into terms."""
    terms: list[RawTerm] = []
    place = _skip_spaces(text, 0)
    while place < len(text):
        term, place = _term(text, place)
        terms.append(term)
        place = _skip_spaces(text, place)
    return terms


def _skip_spaces(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _term(text: str, begin: int) -> tuple[RawTerm, int]:
    is_negated = text[begin] == "-"
    start = begin + is_negated
    place = start
    # A dot leads into a payload: payload.user.id:42.
    while place < len(text) and (text[place].isalnum() or text[place] in "_."):
        place += 1
    field, path = None, ""
    if place > start and text[place : place + 1] == ":":
        field, _, path = text[start:place].partition(".")
        field, start = field.lower(), place + 1
    parts, end = _parts(text, start)
    if not parts:
        what = "a value is missing after the minus" if field is None else f"{field}: a value is missing"
        raise wrong(begin, f"{what}; write name:value, as in status:dead or type:mail")
    return RawTerm(begin, field, parts, is_negated, path), end


def _parts(text: str, place: int) -> tuple[tuple[Part, ...], int]:
    """Read values separated by commas, up to the next space."""
    parts: list[Part] = []
    while place < len(text) and not text[place].isspace():
        if text[place] == ",":
            place += 1
            continue
        if text[place] == '"':
            part, place = _quoted(text, place)
        else:
            part, place = _plain(text, place)
        parts.append(part)
    return tuple(parts), place


def _plain(text: str, begin: int) -> tuple[Part, int]:
    place = begin
    while place < len(text) and not text[place].isspace() and text[place] != ",":
        place += 1
    return Part(text[begin:place]), place


def _quoted(text: str, begin: int) -> tuple[Part, int]:
    """Read a value in quotes; a backslash stands before a quote or a backslash."""
    characters: list[str] = []
    place = begin + 1
    while place < len(text) and text[place] != '"':
        if text[place] == "\\" and text[place + 1 : place + 2] in {'"', "\\"}:
            place += 1
        characters.append(text[place])
        place += 1
    if place >= len(text):
        raise wrong(begin, "this quote is not closed; add the second '\"'")
    return Part("".join(characters), is_quoted=True), place + 1

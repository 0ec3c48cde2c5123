"""The parser of what is typed: argparse's, with its refusals in our form."""

from __future__ import annotations

import argparse
import difflib
from typing import NoReturn

from rota.cli.exits import Exit


class Parser(argparse.ArgumentParser):
    """An argument parser that says what was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line and what to do in another."""
        self.exit(Exit.USAGE, f"rota: {message}\nfix: {self._hint(message)}\n")

    def _hint(self, message: str) -> str:
        wrong, known = _wrong_and_known(message, self)
        close = difflib.get_close_matches(wrong, known, 1, 0.6) if wrong else []
        return f"did you mean {close[0]!r}?" if close else f"see `{self.prog} --help`"


def _wrong_and_known(message: str, parser: argparse.ArgumentParser) -> tuple[str, list[str]]:
    """Find in argparse's message what it did not know, and in the parser what it could have been."""
    flags = sorted(_flags(parser))
    choices = [
        str(choice)
        for action in parser._actions  # noqa: SLF001 - argparse tells of them in no other way
        for choice in (action.choices or ())
    ]
    if "unrecognized arguments:" in message:
        return message.split(":", 1)[1].split(maxsplit=1)[0].split("=", maxsplit=1)[0], flags
    if "invalid choice:" in message:
        return message.split("invalid choice: ", 1)[1].split("'")[1], choices
    return "", []


def _flags(parser: argparse.ArgumentParser) -> set[str]:
    """Gather the flags of a parser and of all below it: argparse reports an unknown one from the root."""
    flags: set[str] = set()
    for action in parser._actions:  # noqa: SLF001 - argparse keeps them so
        flags.update(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for below in action.choices.values():
                flags |= _flags(below)
    return flags

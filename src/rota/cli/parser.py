"""The argument parser (argparse with short errors that name a remedy and show no secret), and what adds commands to it.

A global flag (`--api-url`, `-o`, …) may stand before the command as well as behind it. argparse gives the defaults of a
sub-command precedence over what stood before it, so such flags are moved behind the command before they are parsed.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import NoReturn

from rota.cli.exits import Exit
from rota.core.redaction import redacted


class Parser(argparse.ArgumentParser):
    """An argument parser that suggests the nearest known name."""

    @property
    def actions(self) -> Sequence[argparse.Action]:
        return self._actions

    def error(self, message: str) -> NoReturn:
        self._end(message, *_wrong_and_known(message, self))

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Refuse unknown arguments. The value of a flag is not shown: it may be a secret."""
        flags = [word.partition("=")[0] for word in unknown if word.startswith("-") and len(word) > 1]
        if flags:
            known = [flag for action in self._actions for flag in action.option_strings]
            self._end(f"{self._command}there is no flag {flags[0]}", flags[0], known)
        self._end(f"{self._command}unexpected argument {unknown[0]!r}", "", [])

    @property
    def _command(self) -> str:
        """The words of the command, which come behind the program's name."""
        _, _, words = self.prog.partition(" ")
        return f"{words}: " if words else ""

    def _end(self, message: str, wrong: str, known: Sequence[str]) -> NoReturn:
        close = [name for name in difflib.get_close_matches(wrong, known, 2, 0.6) if name != wrong] if wrong else []
        hint = f"did you mean {close[0]!r}?" if close else f"see `{self.prog} --help`"
        self.exit(Exit.USAGE, f"rota: {redacted(message)}\nfix: {hint}\n")


def global_flags_last(typed: Sequence[str], root: argparse.ArgumentParser, shared: Parser) -> list[str]:
    """Move global flags that come before the command, or between its words, behind it."""
    takes_value = {flag: action.nargs != 0 for action in shared.actions for flag in action.option_strings}
    words: list[str] = []
    moved: list[str] = []
    rest = list(typed)
    parser: argparse.ArgumentParser | None = root
    while rest and parser is not None:
        flag, separator, _ = rest[0].partition("=")
        below = _below(parser)
        if flag in takes_value:
            count = 2 if takes_value[flag] and not separator else 1
            moved, rest = moved + rest[:count], rest[count:]
        elif rest[0] in below:
            parser = below[rest[0]]
            words.append(rest.pop(0))
        else:
            break
    return [*words, *moved, *rest] if words else [*moved, *rest]


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list the commands below
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            return dict(action.choices)
    return {}


def _wrong_and_known(message: str, parser: argparse.ArgumentParser) -> tuple[str, list[str]]:
    """Find the unknown word in argparse's message, and the known ones in the parser."""
    choices = [
        str(choice)
        for action in parser._actions  # noqa: SLF001 - argparse has no public way to list them
        for choice in (action.choices or ())
    ]
    if "invalid choice:" in message:
        return message.split("invalid choice: ", 1)[1].split("'")[1], choices
    return "", []


def add_command(
    commands: argparse._SubParsersAction[Parser],
    name: str,
    run: str,
    description: str,
    shared: Parser,
) -> Parser:
    parser = commands.add_parser(name, help=description, description=description, parents=[shared])
    parser.set_defaults(run=run, leaf=parser)
    return parser


def add_group(
    commands: argparse._SubParsersAction[Parser], name: str, description: str
) -> argparse._SubParsersAction[Parser]:
    parser = commands.add_parser(name, help=description, description=description)
    return parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="sub_command", required=True, parser_class=Parser
    )


def count_of(text: str) -> int:
    """Read a whole number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def add_caution(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="show what would be done")

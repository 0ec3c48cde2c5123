"""The entry: from what was typed to a command's end."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import say
from rota.cli.tree import build

ROLES: Final = ("standalone", "scheduler", "api", "worker")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code."""
    typed = modernised(sys.argv[1:] if arguments is None else list(arguments))
    parser = build()
    options = parser.parse_args(typed)
    if options.command is None:
        parser.print_help()
        return Exit.USAGE
    try:
        module, _, function = options.run.partition(":")
        return int(getattr(import_module(f"rota.cli.commands.{module}"), function)(options) or Exit.OK)
    except CommandFailed as failure:
        return _fail(failure, failure.fix, failure.code, is_verbose=options.verbose)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except Exception as error:  # noqa: BLE001 - a person reads this: one line, not a traceback
        return _fail(error, "run it again with -v to see where", Exit.ERROR, is_verbose=options.verbose)


def _fail(error: Exception, fix: str, code: Exit, *, is_verbose: bool) -> int:
    if is_verbose:
        traceback.print_exception(error)
    say(f"rota: {error}")
    if fix:
        say(f"fix: {fix}")
    return code


def modernised(typed: list[str]) -> list[str]:
    """Read the older single-dash form: `-mode worker -worker-id w1` is `worker --worker-id w1`."""
    words = [f"-{word}" if _is_single_dash_name(word) else word for word in typed]
    for place, word in enumerate(words):
        if word == "--mode" and place + 1 < len(words):
            return [words[place + 1], *words[:place], *words[place + 2 :]]
        if word.startswith("--mode="):
            return [word.removeprefix("--mode="), *words[:place], *words[place + 1 :]]
    return words


def _is_single_dash_name(word: str) -> bool:
    name = word.partition("=")[0]
    return (
        not name.startswith("--") and len(name) > len("-o") and name[0] == "-" and name[1:].replace("-", "").isalpha()
    )

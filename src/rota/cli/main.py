"""The entry point: parses the arguments, runs a command, and prints its error."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from rota.cli.exits import CommandFailed, Exit, code_of
from rota.cli.output import say
from rota.cli.parser import global_flags_last
from rota.cli.tree import build, global_flags
from rota.core.errors import InvalidRequest, RotaError, SchemaTooNew
from rota.core.redaction import redacted
from rota.settings import OPTIONS

ROLES: Final = ("standalone", "scheduler", "api", "worker")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code."""
    typed = modernised(sys.argv[1:] if arguments is None else list(arguments))
    if arguments is None and typed and typed[0] in ROLES:
        # Until the process handles signals, SIGINT ends it: a KeyboardInterrupt during an import could be lost.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    parser = build()
    options, unknown = parser.parse_known_args(global_flags_last(typed, parser, global_flags()))
    if unknown:
        getattr(options, "leaf", parser).refuse(unknown)
    if options.command is None:
        parser.print_help()
        return Exit.USAGE
    try:
        module, _, function = options.run.partition(":")
        return int(getattr(import_module(f"rota.cli.commands.{module}"), function)(options) or Exit.OK)
    except CommandFailed as failure:
        fix = failure.fix or (_help_of(options) if failure.code is Exit.USAGE else "")
        return _fail(failure, fix, failure.code, is_verbose=options.verbose)
    except RotaError as error:
        return _fail(error, _fix_of(error, options), code_of(error), is_verbose=options.verbose)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except Exception as error:  # noqa: BLE001 - one line for a person, not a traceback
        return _fail(error, "run it again with -v for the traceback", Exit.ERROR, is_verbose=options.verbose)


def _fix_of(error: RotaError, options: argparse.Namespace) -> str:
    if isinstance(error, SchemaTooNew):
        return "install the release that migrated it; `rota db status` shows its migrations"
    if isinstance(error, InvalidRequest) and error.field not in OPTIONS:
        return _help_of(options)
    return "see `rota config show --origin`"


def _help_of(options: argparse.Namespace) -> str:
    return f"see `{options.leaf.prog} --help`"


def _fail(error: Exception, fix: str, code: Exit, *, is_verbose: bool) -> int:
    if is_verbose:
        say(redacted("".join(traceback.format_exception(error)).rstrip()))
    say(f"rota: {redacted(str(error))}")
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

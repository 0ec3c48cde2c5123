"""`rota dlq`: list, retry and discard dead jobs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from rota.cli.api_client import ApiClient, refusal_of
from rota.cli.commands.arguments import api_client_of, is_confirmed, printer_of
from rota.cli.commands.jobs import COLUMNS, finished, listed, require_match
from rota.cli.commands.operations import act_on_matches
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import Progress, column, counted, say
from rota.core.errors import JobNotFound
from rota.core.ids import to_number

#: As many as the API acts on in one request.
BATCH: Final = 1_000

GROUPS: Final = (
    column("type"),
    column("count"),
    column("first_at"),
    column("last_at"),
    column("fingerprint"),
    column("example", "example_id"),
)


def list_letters(options: argparse.Namespace) -> int:
    """List dead jobs, or groups of them by cause."""
    api, printer = api_client_of(options), printer_of(options)
    if options.group:
        found = api.get("/v1/dead-letters/groups")["items"]
        printer.records(found, GROUPS, empty="no dead letters", identity="fingerprint")
    else:
        letters = listed(api, "/v1/dead-letters", options.limit)
        printer.records(letters, COLUMNS, empty="no dead letters")
    return Exit.OK


def act(options: argparse.Namespace) -> int:
    if options.match is not None:
        action = "retry" if options.verb == "retry" else "delete"
        return act_on_matches(options, action, f"status:dead {options.match}")
    require_match(options)
    api = api_client_of(options)
    if not options.ids and not options.all:
        fix = "give their ids, --match QUERY, or --all"
        raise CommandFailed(f"dlq {options.verb}: no job is given", fix=fix, code=Exit.USAGE)
    if options.ids and options.all:
        raise CommandFailed(f"dlq {options.verb}: ids and --all are given", fix="give one of the two", code=Exit.USAGE)
    ids = [letter["id"] for letter in listed(api, "/v1/dead-letters", sys.maxsize)] if options.all else options.ids
    if not ids:
        say("no dead letters")
        return Exit.OK
    needs_confirmation = len(ids) > 1 or options.verb == "discard" or options.dry_run
    if needs_confirmation and not is_confirmed(options, f"{options.verb} {counted(len(ids), 'dead job')}"):
        return Exit.OK
    wrong = {text: refusal for text in ids if (refusal := _refusal_of_id(text)) is not None}
    for text, refusal in wrong.items():
        say(f"{options.verb} {text}: {refusal}")
    refusals = [*wrong.values(), *_acted(api, options.verb, [text for text in ids if text not in wrong])]
    if not options.quiet and not refusals:
        say(f"{options.verb}: {len(ids)} done")
    return finished(refusals, len(ids))


def _refusal_of_id(text: str) -> CommandFailed | None:
    """Refuse a bad id here: the API would refuse the whole batch."""
    try:
        to_number(text)
    except JobNotFound as error:
        return CommandFailed(str(error), code=Exit.NOT_FOUND)
    return None


def _acted(api: ApiClient, verb: str, ids: Sequence[str]) -> Iterator[CommandFailed]:
    """Act on dead jobs in batches; print and give the refusals."""
    progress = Progress(verb, len(ids))
    for start in range(0, len(ids), BATCH):
        reply = api.post(f"/v1/dead-letters:{verb}", {"ids": ids[start : start + BATCH]})
        progress.show(min(start + BATCH, len(ids)))
        for item in reply["refused"]:
            refusal = refusal_of(item["status"], item["error"])
            say(f"{verb} {item['id']}: {refusal}")
            yield refusal

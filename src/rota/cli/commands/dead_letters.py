"""`rota dlq`: list, retry and discard dead jobs, and write notes on their causes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

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

#: How many died in each of the last 24 hours, as a line of blocks.
_BLOCKS: Final = "▁▂▃▄▅▆▇█"

GROUPS: Final = (
    column("type"),
    column("count"),
    column("fingerprint"),
    column("error", "error_text"),
    column("last_at"),
    column("last day", "last_day"),
    column("note", "note_text"),
    column("first_at"),
    column("example", "example_id"),
)


def list_dead_letters(options: argparse.Namespace) -> int:
    """List dead jobs, or groups of them by cause."""
    api, printer = api_client_of(options), printer_of(options)
    if options.group:
        groups = api.get("/v1/dead-letters/groups")["items"]
        if printer.form in {"table", "csv"}:
            groups = [_group_row(group) for group in groups]
        printer.records(groups, GROUPS, empty="no dead letters", identity="fingerprint")
    else:
        letters = listed(api, "/v1/dead-letters", options.limit)
        printer.records(letters, COLUMNS, empty="no dead letters")
    return Exit.OK


def _group_row(group: Mapping[str, Any]) -> dict[str, Any]:
    error, note = group["error"], group["note"]
    return {
        **group,
        "error_text": error and error["message"],
        "last_day": drawn(group["trend"]),
        "note_text": note and note["text"],
    }


def drawn(counts: Sequence[int]) -> str:
    """Draw counts as a line of blocks, the largest as a full one; nothing where there is none."""
    most = max(counts, default=0)
    return "".join(" " if not one else _BLOCKS[(one * len(_BLOCKS) - 1) // most] for one in counts) if most else ""


def note(options: argparse.Namespace) -> int:
    """Set or remove the note on a cause."""
    if (options.text is None) == (not options.remove):
        raise CommandFailed("dlq note: give a text, or --remove", fix="one of the two", code=Exit.USAGE)
    api = api_client_of(options)
    cause = _cause_of(api, options.cause)
    if options.remove:
        api.request("DELETE", "/v1/dead-letters/groups/note", query=cause)
    else:
        api.request("PUT", "/v1/dead-letters/groups/note", {**cause, "text": options.text})
    if not options.quiet:
        say(f"note on {options.cause} {'removed' if options.remove else 'set'}")
    return Exit.OK


def _cause_of(api: ApiClient, given: str) -> dict[str, str]:
    """Find a cause by its fingerprint; one without a fingerprint by its type."""
    for group in api.get("/v1/dead-letters/groups")["items"]:
        if given == (group["fingerprint"] or group["type"]):
            return {"type": group["type"], "fingerprint": group["fingerprint"]}
    fix = "`rota dlq list --group` shows the causes"
    raise CommandFailed(f"dlq note: no job is dead by the cause {given!r}", fix=fix, code=Exit.NOT_FOUND)


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

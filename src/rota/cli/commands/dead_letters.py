"""Dead letters: looking at what was given up, running it again, or letting it go."""

from __future__ import annotations

import argparse
from typing import Final

from rota.cli.commands.jobs import COLUMNS, PAGE
from rota.cli.commands.setup import is_meant, printer_of, server_of
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import Progress, column, say
from rota.cli.server import Server

GROUPS: Final = (
    column("type"),
    column("count"),
    column("first_at"),
    column("last_at"),
    column("fingerprint"),
    column("example", "example_id"),
)


def list_letters(options: argparse.Namespace) -> int:
    """List dead jobs, or the causes they died of."""
    server, printer = server_of(options), printer_of(options)
    if options.group:
        printer.records(server.get("/v1/dead-letters/groups")["items"], GROUPS, empty="no dead letters")
    else:
        found = server.get("/v1/dead-letters", limit=min(options.limit, PAGE))["items"]
        printer.records(found, COLUMNS, empty="no dead letters")
    return Exit.OK


def act(options: argparse.Namespace) -> int:
    """Retry or discard dead jobs."""
    server = server_of(options)
    if not options.ids and not options.all:
        raise CommandFailed(f"dlq {options.verb}: which?", fix="name their ids, or say --all", code=Exit.USAGE)
    ids = _all_ids(server) if options.all else options.ids
    is_careful = len(ids) > 1 or options.verb == "discard" or options.dry_run
    if is_careful and not is_meant(options, f"{options.verb} {len(ids)} dead jobs"):
        return Exit.OK
    progress = Progress(options.verb, len(ids))
    for number, job_id in enumerate(ids, 1):
        server.post(f"/v1/dead-letters/{job_id}/{options.verb}")
        progress.show(number)
    if not options.quiet:
        say(f"{options.verb}: {len(ids)} done")
    return Exit.OK


def _all_ids(server: Server) -> list[str]:
    ids: list[str] = []
    cursor = None
    while True:
        page = server.get("/v1/dead-letters", limit=PAGE, cursor=cursor)
        ids += [job["id"] for job in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return ids

"""`rota ledger list` and `rota openapi`: what operators did, and the description of the API."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any, Final

from rota.cli.commands.arguments import api_client_of, printer_of
from rota.cli.commands.jobs import listed
from rota.cli.exits import Exit
from rota.cli.output import clean, column

LOOK_SECONDS: Final = 0.5
#: How many entries `-f` reads at once; more that come within half a second are read one page after the other.
_PAGE: Final = 100
COLUMNS: Final = (
    column("number"),
    column("at"),
    column("actor"),
    column("action"),
    column("target"),
    column("detail"),
    column("surface"),
    column("origin"),
)


def list_entries(options: argparse.Namespace) -> int:
    """List what operators did, newest first; with -f oldest first, and go on."""
    api = api_client_of(options)
    entries = listed(api, "/v1/events", options.limit)
    if not options.follow:
        printer_of(options).records(entries, COLUMNS, empty="no entries", identity="number")
        return Exit.OK
    last = 0
    while True:
        fresh = sorted((one for one in entries if one["number"] > last), key=lambda one: one["number"])
        for entry in fresh:
            print(_line(options.output, entry), flush=True)
        last = max(last, *(one["number"] for one in fresh), 0)
        if options.times is not None:
            options.times -= 1
            if not options.times:
                return Exit.OK
        time.sleep(LOOK_SECONDS)
        entries = listed(api, "/v1/events", _PAGE)
        while entries and entries[-1]["number"] > last + 1 and len(entries) % _PAGE == 0:
            entries = listed(api, "/v1/events", len(entries) + _PAGE)


def _line(form: str, entry: Any) -> str:  # noqa: ANN401 - JSON
    if form in {"json", "jsonl"}:
        return json.dumps(entry)
    words = (str(entry[name]) for name in ("number", "at", "actor", "action", "target", "detail") if entry[name])
    return clean("  ".join(words))


def openapi(options: argparse.Namespace) -> int:
    """Print the OpenAPI document of the server."""
    print(json.dumps(api_client_of(options).get("/openapi.json"), indent=2))
    return Exit.OK

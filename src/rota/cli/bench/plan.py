"""The plan: what was asked for, checked before anything is sent."""

from __future__ import annotations

import argparse
import json
import secrets
from dataclasses import dataclass
from typing import Final

from rota.cli.exits import CommandFailed, Exit
from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest

#: A built-in type that every worker knows. It gives its payload back and does nothing else.
TYPE: Final = "echo"
#: A queue that nobody else uses: what waits in it stands in nobody's way.
QUEUE: Final = "rota-bench"
MOST_CONNECTIONS: Final = 1_000
#: As much as the API takes at once.
LARGEST_BATCH: Final = 1_000
LARGEST_BODY: Final = 1_048_576
#: What stands around a payload in a request: its type, queue and tag.
_AROUND: Final = 120
_LONGEST_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of what, for how long, and whether to see it run. Without a rate, as fast as it goes."""

    seconds: float
    connections: int
    batch: int
    payload: str
    queue: str
    tag: str
    rate: float | None = None
    is_to_run: bool = False
    #: How long to wait for the jobs to run at most; None for as long as it takes.
    patience_seconds: float | None = None
    is_kept: bool = False

    @property
    def interval(self) -> float | None:
        """How many seconds lie between two requests, of all callers together."""
        return None if self.rate is None else self.batch / self.rate


def plan_of(options: argparse.Namespace) -> Plan:
    """Read what was typed; refuse what cannot be done, naming the flag and the remedy."""
    if options.output not in {"table", "json", "jsonl"}:
        _refuse(f"--output {options.output}: this is one report, not a list", "choose table, json or jsonl")
    seconds = _seconds(options.duration, "duration")
    if not 0 < seconds <= _LONGEST_SECONDS:
        _refuse(f"--duration {options.duration}: it must be longer than nothing and at most a day", "try 10s")
    _within("connections", options.connections, 1, MOST_CONNECTIONS)
    _within("batch", options.batch, 1, LARGEST_BATCH)
    _within("payload-size", options.payload_size, 2, LARGEST_BODY)
    if options.rate is not None and not 0 < options.rate < float("inf"):
        _refuse(f"--rate {options.rate:g}: it must be more than nothing", "leave it out for as fast as it goes")
    size = options.batch * (options.payload_size + _AROUND)
    if size > LARGEST_BODY:
        told = f"--batch {options.batch} of --payload-size {options.payload_size}"
        _refuse(
            f"{told}: a request would have about {size:,} bytes; the API takes {LARGEST_BODY:,}", "make one smaller"
        )
    return Plan(
        seconds=seconds,
        connections=options.connections,
        batch=options.batch,
        payload=json.dumps("x" * (options.payload_size - 2)),
        queue=options.queue,
        tag=f"bench-{secrets.token_hex(4)}",
        rate=options.rate,
        is_to_run=options.wait is not None,
        patience_seconds=_seconds(options.wait, "wait") if options.wait else None,
        is_kept=options.keep,
    )


def _seconds(text: str, name: str) -> float:
    try:
        return parse_duration(text, field=f"--{name}").total_seconds()
    except InvalidRequest as error:
        raise CommandFailed(str(error), fix=f"as in --{name} 10s", code=Exit.USAGE) from None


def _within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        _refuse(f"--{name} {value}: it must lie between {least} and {most:,}", f"see `rota bench --help` for --{name}")


def _refuse(cause: str, fix: str) -> None:
    raise CommandFailed(cause, fix=fix, code=Exit.USAGE)

"""Bugs in the claims of jobs that limits concern; found by the models, in worlds with limits."""

# ruff: noqa: ANN401 - what is wrapped here has many signatures, and the wrong one has the right one's

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Any

from rota.core.limit import Allowance, Limit, Turns
from rota.stores import limited_lanes
from rota.stores.limited_lanes import LimitedClaim
from rota.stores.sqlite import claim as sqlite_claim
from rota.stores.sqlite import limits as sqlite_limits
from simulation.mutants.planting import Planting, instead, mutant
from simulation.scenario import raw_connection
from simulation.worlds import FIRST_WITH_LIMITS


@mutant("I13", first=FIRST_WITH_LIMITS)
def limit_of_a_queue_not_looked_for() -> Planting:
    """A claim without keys takes the fast way, whatever limits its queue has."""

    def is_limited(right: Any, lane: Any, names: Iterable[str]) -> bool:
        return bool(right(lane, [name for name in names if not name.startswith("queue:")]))

    with instead(sqlite_claim, "is_limited", is_limited):
        yield


@mutant("I13", first=FIRST_WITH_LIMITS)
def one_more_than_allowed() -> Planting:
    """A limit that is full lets one more start."""

    def allowance_of(right: Any, *arguments: Any) -> Allowance:
        found: Allowance = right(*arguments)
        return Allowance(found.starts + 1, found.opens_at)

    with instead(limited_lanes, "allowance_of", allowance_of):
        yield


@mutant("I13", first=FIRST_WITH_LIMITS)
def running_jobs_counted_before_retries() -> Planting:
    """Jobs that run once more do not count (Hatchet #4778 counted only what its own queue had started)."""

    def rows(right: Any, connection: Any, *arguments: Any) -> Any:
        del right, connection, arguments
        return raw_connection().rows(
            "SELECT queue, type, concurrency_key, count(*) FROM rota_job WHERE state = 'running' AND fence = 1"
            " GROUP BY queue, type, concurrency_key"
        )

    def begin(right: Any, connection: Any, *arguments: Any) -> LimitedClaim:
        claim: LimitedClaim = right(connection, *arguments)
        claim.running = limited_lanes.running_by_name(rows(None, connection))
        return claim

    with instead(sqlite_limits, "_begin", begin):
        yield


@mutant("I13", first=FIRST_WITH_LIMITS)
def key_counted_in_its_own_type_only() -> Planting:
    """What runs under a key is counted for each task by itself."""

    def running_by_name(right: Any, counts: Iterable[Any]) -> dict[str, int]:
        found: dict[str, int] = right(counts)
        return {name: count for name, count in found.items() if not name.startswith("key:")}

    with instead(sqlite_limits, "running_by_name", running_by_name):
        yield


@mutant("I13", first=FIRST_WITH_LIMITS)
def rate_not_written() -> Planting:
    """What a claim takes from a rate is not written, so that each claim has a whole burst."""

    def new_arrivals(right: Any, claim: LimitedClaim, chosen: Any) -> list[Any]:
        del right, claim, chosen
        return []

    with instead(LimitedClaim, "new_arrivals", new_arrivals):
        yield


@mutant("I1", first=FIRST_WITH_LIMITS)
def permit_leaks_with_a_lapsed_lease() -> Planting:
    """A permit that was lost with its worker is never free again."""

    def begin(right: Any, connection: Any, *arguments: Any) -> LimitedClaim:
        claim: LimitedClaim = right(connection, *arguments)
        leaked = raw_connection().rows(
            "SELECT queue, type, concurrency_key, count(*) FROM rota_job WHERE crashes > 0 AND state <> 'running'"
            " GROUP BY queue, type, concurrency_key"
        )
        for name, count in limited_lanes.running_by_name(leaked).items():
            claim.running[name] = claim.running.get(name, 0) + count
        return claim

    with instead(sqlite_limits, "_begin", begin):
        yield


@mutant("I13", first=FIRST_WITH_LIMITS)
def closed_limit_ignored() -> Planting:
    """A limit that is closed lets jobs start."""

    def closed_micros(right: Any, limit: Limit, now: int) -> int | None:
        del right, limit, now
        return None

    with instead(Limit, "closed_micros", closed_micros):
        yield


@mutant("I13", first=FIRST_WITH_LIMITS)
def strict_order_ignored() -> Planting:
    """The first job of a key that is due starts, whatever was submitted before it."""

    def split_strict(right: Any, claim: LimitedClaim, keys: Any) -> Any:
        del right, claim
        return [], list(keys)

    with instead(LimitedClaim, "split_strict", split_strict):
        yield


@mutant("G7", first=FIRST_WITH_LIMITS + 11)
def full_key_holds_up_others() -> Planting:
    """Behind a key that has no permit to give no other one is looked at (Oban Pro: a partition blocks all others)."""

    def open_keys(right: Any, claim: LimitedClaim, lane: Any, rows: Any) -> Any:
        keys = dict(right(claim, lane, rows))
        return list(takewhile(lambda one: one[1], ((row[0], keys.get(row[0], 0)) for row in rows)))

    with instead(LimitedClaim, "open_keys", open_keys):
        yield


@mutant("G7", first=FIRST_WITH_LIMITS + 165)
def keys_take_no_turns() -> Planting:
    """One key always goes before another."""

    def start_of(right: Any, turns: Turns, key: str) -> float:
        del right, turns
        return float(sum(key.encode()))

    with instead(Turns, "start_of", start_of):
        yield

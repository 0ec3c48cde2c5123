"""What handlers and processes did: I4 (starts), I7 (cancels that are obeyed), I12 (SIGTERM), G4."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from simulation.checker import waits
from simulation.checker.replay import Replay
from simulation.checker.violations import Record

#: How long a fault may have effects after its end: a late message, a process that is being restarted.
_AFTERMATH_MICROS: Final = 20_000_000
_LONG_AFTERMATH_MICROS: Final = 35_000_000
_GRACE_ROUNDING_MICROS: Final = 1_000
_CLOCK_ROUNDING_MICROS: Final = 2
#: A worker takes a step back of the store's clock that is shorter than this for a slow answer.
_UNSEEN_STEP_MICROS: Final = 20_000
#: How long a request to stop may take to arrive at a handler without faults.
_OBEYING_MICROS: Final = 1_000_000
#: How often a scheduler looks at the store's clock at least.
_LOOKED_AT_MICROS: Final = 7_000_000
#: How long a scheduler needs to be back at work once the store is.
_SHORT_MICROS: Final = 10_000_000
#: What keeps no scheduler from the store: what happens to other hosts, clocks, and a message that comes twice.
_OTHERS: Final = ("worker-", "client-", "api-")
_HARMLESS: Final = frozenset({"clock", "store_clock", "duplication"})
#: Ends that are not the handler's own.
_INTERRUPTED: Final = frozenset({"released", "stopped", "aborted"})


@dataclass(slots=True)
class ActiveFaults:
    """Which faults are under way, and which processes have been asked to end."""

    under_way: dict[str, int] = field(default_factory=dict)
    felt_until: int = 0
    #: The same of faults that keep schedulers from the store: no clock's, and not those of other hosts.
    schedulers_under_way: dict[str, int] = field(default_factory=dict)
    schedulers_felt_until: int = 0
    has_faults: bool = False
    sigterms: dict[str, Record] = field(default_factory=dict)

    def is_calm(self, since: int) -> bool:
        """Whether nothing has gone wrong since a moment, nor shortly before it."""
        return not any(self.under_way.values()) and self.felt_until < since

    def schedulers_calm_since(self, at: int) -> int:
        """Say since when nothing keeps schedulers from the store; if something does, since now."""
        return at if any(self.schedulers_under_way.values()) else self.schedulers_felt_until

    def note_fault(self, kind: str, at: int) -> None:
        """Note that a fault may have effects for a while."""
        aftermath = _LONG_AFTERMATH_MICROS if kind == "delay" else _AFTERMATH_MICROS
        self.felt_until = max(self.felt_until, at + aftermath)


def on_fault(replay: Replay, watch: ActiveFaults, record: Record) -> None:
    """Note the begin and the end of a fault."""
    kind, phase = record["fault"], record["phase"]
    if kind in {"store_clock", "all"}:
        _note_disturbance(replay, record["at"])
    if kind == "terminate":
        return
    if kind == "all":
        if any(watch.schedulers_under_way.values()):
            watch.schedulers_felt_until = record["at"] + _AFTERMATH_MICROS
        watch.schedulers_under_way.clear()
        for one, count in watch.under_way.items():
            if count:
                watch.note_fault(one, record["at"])
        watch.under_way.clear()
        return
    watch.has_faults = True
    watch.note_fault(kind, record["at"])
    concerns_schedulers = kind not in _HARMLESS and not record["target"].startswith(_OTHERS)
    if concerns_schedulers:
        watch.schedulers_felt_until = record["at"] + (_LONG_AFTERMATH_MICROS if kind == "delay" else _SHORT_MICROS)
    # A failpoint is over when it strikes; what follows from it is its aftermath.
    if kind != "failpoint":
        step = {"begin": 1, "end": -1, "hit": 0}[phase]
        for under_way in (watch.under_way, *([watch.schedulers_under_way] if concerns_schedulers else [])):
            under_way[kind] = max(under_way.get(kind, 0) + step, 0)


def _note_disturbance(replay: Replay, at: int) -> None:
    """Note a change of the store's clock."""
    if replay.clock_disturbed_at >= 0 and at - replay.clock_disturbed_at < _LOOKED_AT_MICROS:
        replay.clock_flickers.append((replay.clock_disturbed_at, at))
    replay.clock_disturbed_at = at
    # Until now it was as far ahead as when it was last seen; some reads of it are not on record.
    replay.clock = max(replay.clock, at + replay.clock_ahead)


def on_start(replay: Replay, watch: ActiveFaults, record: Record) -> None:
    """Check the beginning of a handler."""
    expected = replay.jobs.get(record["job"])
    if expected is None:
        return
    expected.trail.append(record["number"])
    expected.starts += 1
    expected.starts_under = record["fence"]
    sigterm = watch.sigterms.get(record["boot"])
    if sigterm is not None and record["at"] > sigterm["at"] + _GRACE_ROUNDING_MICROS and watch.is_calm(sigterm["at"]):
        late = (record["at"] - sigterm["at"]) / 1e6
        replay.flag("I12", f"begun {late:.3f} s after {record['boot']} was asked to end", record, expected)
    if expected.delivery == "at_most_once" and expected.starts > 1:
        replay.flag("I4", f"started {expected.starts} times", record, expected)
    if "input" in record:
        waits.check_input(replay, record, expected)
    early = expected.run_at - (record["at"] + replay.clock_ahead)
    is_clock_right = not watch.under_way.get("store_clock") and replay.clock_disturbed_at < expected.claimed_at
    allowed = _CLOCK_ROUNDING_MICROS if replay.clock_disturbed_at < 0 else _UNSEEN_STEP_MICROS
    if early > allowed and is_clock_right and expected.fence == record["fence"]:
        replay.flag("I9", f"begun {early / 1e6:.6f} s before its time", record, expected)
    # When the store's clock leaps, leases end without that their holders can know.
    claimed_at = expected.claims.get(record["fence"], expected.claimed_at)
    if (expected.state == "running" and expected.fence == record["fence"]) or replay.clock_disturbed_at >= claimed_at:
        return
    if expected.state == "cancelled" and expected.cancel_heard_at is not None:
        replay.flag("I7", f"started under fence {record['fence']} after the cancel was acknowledged", record, expected)
    else:
        words = f"started under fence {record['fence']}; it was {expected.state} under {expected.fence}"
        replay.flag("I3", words, record, expected)


def on_end(replay: Replay, watch: ActiveFaults, record: Record) -> None:
    """Note the outcome of an attempt, and check that it stopped when its job was cancelled."""
    place = (record["job"], record["fence"])
    replay.ends[place] = record["outcome"]
    told_at = replay.told_to_stop.get(place)
    if told_at is None or record["deaf"] or record["outcome"] in _INTERRUPTED or not watch.is_calm(told_at):
        return
    late = record["at"] - told_at
    expected = replay.jobs.get(record["job"])
    if late > _OBEYING_MICROS and expected is not None:
        replay.flag(
            "I7", f"worked on for {late / 1e6:.3f} s after its worker was settlement to stop it", record, expected
        )


def on_exit(replay: Replay, watch: ActiveFaults, record: Record) -> None:
    """Check how a process ended that was asked to."""
    sigterm = watch.sigterms.pop(record["boot"], None)
    if sigterm is None or not watch.is_calm(sigterm["at"]):
        return
    late = record["at"] - sigterm["at"] - sigterm["grace"]
    if late > _GRACE_ROUNDING_MICROS:
        replay.flag("I12", f"{record['boot']} ended {late / 1e6:.6f} s after its grace", record)
    for expected in replay.jobs.values():
        if expected.state == "running" and expected.holder == record["boot"]:
            replay.flag("I12", f"{record['boot']} ended and left it to its lease", record, expected)


def check_lost(replay: Replay, watch: ActiveFaults, record: Record) -> None:
    """While nothing goes wrong, and nothing has since it was given, no lease may be lost."""
    for settlement in record["ask"]["settlements"]:
        if settlement.get("crash") and settlement["id"] in record["got"]:
            expected = replay.jobs.get(settlement["id"])
            if expected is not None and (not watch.has_faults or watch.is_calm(expected.claimed_at)):
                replay.flag("G4", "a lease was lost though nothing went wrong", record, expected)

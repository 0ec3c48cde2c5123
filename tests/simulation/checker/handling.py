"""What handlers and processes did: I4 (starts), I7 (cancels that are obeyed), I12 (SIGTERM), G4."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from simulation.checker import waiting
from simulation.checker.court import Court
from simulation.checker.verdict import Record

#: How long after its end a fault may still be felt: a straggling message, a process that is being restarted.
_AFTERMATH_MICROS: Final = 20_000_000
_LONG_AFTERMATH_MICROS: Final = 35_000_000
_GRACE_ROUNDING_MICROS: Final = 1_000
_CLOCK_ROUNDING_MICROS: Final = 2
#: A worker takes a step back of the store's clock that is shorter than this for a slow answer.
_UNSEEN_STEP_MICROS: Final = 20_000
#: How long the word to stop may take to get to a handler when nothing is in its way.
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
class Watch:
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

    def feel(self, kind: str, at: int) -> None:
        """Take note of a fault that begins, or ends, or is under way."""
        aftermath = _LONG_AFTERMATH_MICROS if kind == "delay" else _AFTERMATH_MICROS
        self.felt_until = max(self.felt_until, at + aftermath)


def on_fault(court: Court, watch: Watch, record: Record) -> None:
    """Keep account of what the nemesis does."""
    kind, phase = record["fault"], record["phase"]
    if kind in {"store_clock", "all"}:
        _note_meddling(court, record["at"])
    if kind == "terminate":
        return
    if kind == "all":
        if any(watch.schedulers_under_way.values()):
            watch.schedulers_felt_until = record["at"] + _AFTERMATH_MICROS
        watch.schedulers_under_way.clear()
        for one, count in watch.under_way.items():
            if count:
                watch.feel(one, record["at"])
        watch.under_way.clear()
        return
    watch.has_faults = True
    watch.feel(kind, record["at"])
    concerns_schedulers = kind not in _HARMLESS and not record["target"].startswith(_OTHERS)
    if concerns_schedulers:
        watch.schedulers_felt_until = record["at"] + (_LONG_AFTERMATH_MICROS if kind == "delay" else _SHORT_MICROS)
    # A failpoint is over when it strikes; what follows from it is its aftermath.
    if kind != "failpoint":
        step = {"begin": 1, "end": -1, "hit": 0}[phase]
        for under_way in (watch.under_way, *([watch.schedulers_under_way] if concerns_schedulers else [])):
            under_way[kind] = max(under_way.get(kind, 0) + step, 0)


def _note_meddling(court: Court, at: int) -> None:
    """Keep account of what is done to the store's clock."""
    if court.clock_meddled_at >= 0 and at - court.clock_meddled_at < _LOOKED_AT_MICROS:
        court.clock_flickers.append((court.clock_meddled_at, at))
    court.clock_meddled_at = at
    # Until now it was as far ahead as when it was last seen; some reads of it are not on record.
    court.clock = max(court.clock, at + court.clock_ahead)


def on_start(court: Court, watch: Watch, record: Record) -> None:
    """Judge the beginning of a handler."""
    twin = court.jobs.get(record["job"])
    if twin is None:
        return
    twin.trail.append(record["number"])
    twin.starts += 1
    twin.starts_under = record["fence"]
    sigterm = watch.sigterms.get(record["boot"])
    if sigterm is not None and record["at"] > sigterm["at"] + _GRACE_ROUNDING_MICROS and watch.is_calm(sigterm["at"]):
        late = (record["at"] - sigterm["at"]) / 1e6
        court.blame("I12", f"begun {late:.3f} s after {record['boot']} was asked to end", record, twin)
    if twin.delivery == "at_most_once" and twin.starts > 1:
        court.blame("I4", f"started {twin.starts} times", record, twin)
    if "input" in record:
        waiting.judge_input(court, record, twin)
    early = twin.run_at - (record["at"] + court.clock_ahead)
    is_clock_right = not watch.under_way.get("store_clock") and court.clock_meddled_at < twin.claimed_at
    allowed = _CLOCK_ROUNDING_MICROS if court.clock_meddled_at < 0 else _UNSEEN_STEP_MICROS
    if early > allowed and is_clock_right and twin.fence == record["fence"]:
        court.blame("I9", f"begun {early / 1e6:.6f} s before its time", record, twin)
    # When the store's clock leaps, leases end that nobody could know to be over.
    claimed_at = twin.claims.get(record["fence"], twin.claimed_at)
    if (twin.state == "running" and twin.fence == record["fence"]) or court.clock_meddled_at >= claimed_at:
        return
    if twin.state == "cancelled" and twin.cancel_heard_at is not None:
        court.blame("I7", f"started under fence {record['fence']} after the cancel was acknowledged", record, twin)
    else:
        words = f"started under fence {record['fence']}; it was {twin.state} under {twin.fence}"
        court.blame("I3", words, record, twin)


def on_end(court: Court, watch: Watch, record: Record) -> None:
    """Remember what an attempt came to, and whether it obeyed when its job was cancelled."""
    place = (record["job"], record["fence"])
    court.ends[place] = record["outcome"]
    told_at = court.told_to_stop.get(place)
    if told_at is None or record["deaf"] or record["outcome"] in _INTERRUPTED or not watch.is_calm(told_at):
        return
    late = record["at"] - told_at
    twin = court.jobs.get(record["job"])
    if late > _OBEYING_MICROS and twin is not None:
        court.blame("I7", f"worked on for {late / 1e6:.3f} s after its worker was told to stop it", record, twin)


def on_exit(court: Court, watch: Watch, record: Record) -> None:
    """Judge how a process ended that was asked to."""
    sigterm = watch.sigterms.pop(record["boot"], None)
    if sigterm is None or not watch.is_calm(sigterm["at"]):
        return
    late = record["at"] - sigterm["at"] - sigterm["grace"]
    if late > _GRACE_ROUNDING_MICROS:
        court.blame("I12", f"{record['boot']} ended {late / 1e6:.6f} s after its grace", record)
    for twin in court.jobs.values():
        if twin.state == "running" and twin.holder == record["boot"]:
            court.blame("I12", f"{record['boot']} ended and left it to its lease", record, twin)


def judge_lost(court: Court, watch: Watch, record: Record) -> None:
    """While nothing goes wrong, and nothing has since it was given, no lease may be lost."""
    for told in record["ask"]["settlements"]:
        if told.get("crash") and told["id"] in record["got"]:
            twin = court.jobs.get(told["id"])
            if twin is not None and (not watch.has_faults or watch.is_calm(twin.claimed_at)):
                court.blame("G4", "a lease was lost though nothing went wrong", record, twin)

"""The hearing: every record once, in order, then what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from simulation.checker import (
    clock_steps,
    firing,
    graphs,
    handling,
    leasing,
    limits,
    remains,
    settling,
    submitting,
    waiting,
)
from simulation.checker.court import Court
from simulation.checker.handling import Watch
from simulation.checker.verdict import Record, Verdict

_APPLIED: Final[dict[str, Callable[[Court, Record], None]]] = {
    "insert": submitting.on_insert,
    "claim": leasing.on_claim,
    "renew": leasing.on_renew,
    "promote": leasing.on_promote,
    "ask_cancel": leasing.on_ask_cancel,
    "settle": settling.on_settle,
    "fire": firing.on_fire,
    "put_schedules": firing.on_put_schedules,
    "begin_wait": waiting.on_begin_wait,
    "conclude": waiting.on_conclude,
    "emit": waiting.on_emit,
    "end_waits": waiting.on_end_waits,
    "put_workflow": graphs.on_put_workflow,
    "rerun": graphs.on_rerun,
}


def check(records: Sequence[Record], dump: dict[str, Any]) -> Verdict:
    """Judge a run by its history and by what it left behind."""
    hearing = Hearing(dump)
    for record in records:
        hear = _HEARD.get(record["kind"])
        if hear is not None:
            hear(hearing, record)
    hearing.close()
    return hearing.court.verdict


class Hearing:
    """One pass over a history."""

    def __init__(self, dump: dict[str, Any]) -> None:
        self.court = Court(dump)
        self._watch = Watch()
        self._asks: dict[int, Any] = {}
        self._end: Record = {"number": 0, "clock": 0}

    def hear_apply(self, record: Record) -> None:
        """Replay what the store did."""
        self.court.clock = max(self.court.clock, record["clock"])
        self.court.clock_ahead = record["clock"] - record["at"]
        replay = _APPLIED.get(record["verb"])
        if replay is not None:
            replay(self.court, record)
        if record["verb"] == "settle":
            handling.judge_lost(self.court, self._watch, record)
            clock_steps.judge_taken(self.court, record)
        clock_steps.judge_armed(self.court, self._watch, record)

    def hear_limits(self, record: Record) -> None:
        """Note the limits of the world."""
        limits.on_limits(self.court, record)

    def hear_invoke(self, record: Record) -> None:
        """Remember what was asked; an answer does not repeat it."""
        self._asks[record["call"]] = record["ask"]

    def hear_ok(self, record: Record) -> None:
        """Note what somebody knows from now on."""
        if record["verb"] == "insert":
            submitting.on_insert_heard(self.court, record)
        elif record["verb"] == "settle":
            settling.on_settle_heard(self.court, record, self._asks[record["call"]])

    def hear_accepted(self, record: Record) -> None:
        """Note what a submitter was told at last."""
        submitting.on_accepted(self.court, record)

    def hear_workflow_accepted(self, record: Record) -> None:
        """Note that the submitter of a workflow was told that it is stored."""
        graphs.on_accepted(self.court, record)

    def hear_workflow_cancelled(self, record: Record) -> None:
        """Judge what an acknowledged cancel of a workflow has left."""
        graphs.on_cancelled(self.court, record)

    def hear_waited(self, record: Record) -> None:
        """Judge with what a handler went on after a wait."""
        waiting.on_waited(self.court, record)

    def hear_start(self, record: Record) -> None:
        """Judge the beginning of a handler."""
        handling.on_start(self.court, self._watch, record)

    def hear_end(self, record: Record) -> None:
        """Judge the end of a handler."""
        handling.on_end(self.court, self._watch, record)

    def hear_fault(self, record: Record) -> None:
        """Keep account of the nemesis."""
        handling.on_fault(self.court, self._watch, record)

    def hear_boot(self, record: Record) -> None:
        """Remember who started when."""
        self.court.booted_at[record["host"]] = record["at"]

    def hear_blind(self, record: Record) -> None:
        """Remember who did not see the store's clock until when."""
        self.court.blind_until[record["host"]] = record["at"]

    def hear_sigterm(self, record: Record) -> None:
        """Remember who was asked to end."""
        self._watch.sigterms[record["boot"]] = record

    def hear_exit(self, record: Record) -> None:
        """Judge how a process ended."""
        handling.on_exit(self.court, self._watch, record)

    def hear_end_of_run(self, record: Record) -> None:
        """Remember when it was over."""
        self._end = record

    def close(self) -> None:
        """Judge what only shows at the end."""
        firing.judge_schedules(self.court, self._end)
        remains.judge_remains(self.court)


_HEARD: Final[dict[str, Callable[[Hearing, Record], None]]] = {
    "apply": Hearing.hear_apply,
    "limits": Hearing.hear_limits,
    "invoke": Hearing.hear_invoke,
    "ok": Hearing.hear_ok,
    "accepted": Hearing.hear_accepted,
    "workflow_accepted": Hearing.hear_workflow_accepted,
    "workflow_cancelled": Hearing.hear_workflow_cancelled,
    "waited": Hearing.hear_waited,
    "start": Hearing.hear_start,
    "end": Hearing.hear_end,
    "fault": Hearing.hear_fault,
    "boot": Hearing.hear_boot,
    "blind": Hearing.hear_blind,
    "sigterm": Hearing.hear_sigterm,
    "exit": Hearing.hear_exit,
    "end_of_run": Hearing.hear_end_of_run,
}

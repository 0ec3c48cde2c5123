"""The check of a history: every record once, in order, then the dump."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from simulation.checker import (
    clock_steps,
    final_state,
    fire_times,
    handlers,
    leases,
    limits,
    settlements,
    submissions,
    waits,
    workflows,
)
from simulation.checker.handlers import ActiveFaults
from simulation.checker.replay import Replay
from simulation.checker.violations import Record, Report

_APPLIED: Final[dict[str, Callable[[Replay, Record], None]]] = {
    "insert": submissions.on_insert,
    "claim": leases.on_claim,
    "renew": leases.on_renew,
    "promote": leases.on_promote,
    "ask_cancel": leases.on_ask_cancel,
    "settle": settlements.on_settle,
    "fire": fire_times.on_fire,
    "put_schedules": fire_times.on_put_schedules,
    "begin_wait": waits.on_begin_wait,
    "conclude": waits.on_conclude,
    "emit": waits.on_emit,
    "end_waits": waits.on_end_waits,
    "put_workflow": workflows.on_put_workflow,
    "rerun": workflows.on_rerun,
}


def check(records: Sequence[Record], dump: dict[str, Any]) -> Report:
    """Check a run by its history and by what is left in the store."""
    history_check = HistoryCheck(dump)
    for record in records:
        check_record = _CHECKS.get(record["kind"])
        if check_record is not None:
            check_record(history_check, record)
    history_check.close()
    return history_check.replay.report


class HistoryCheck:
    """One pass over a history."""

    def __init__(self, dump: dict[str, Any]) -> None:
        self.replay = Replay(dump)
        self._watch = ActiveFaults()
        self._asks: dict[int, Any] = {}
        self._end: Record = {"number": 0, "clock": 0}

    def on_apply(self, record: Record) -> None:
        """Replay what the store did."""
        self.replay.clock = max(self.replay.clock, record["clock"])
        self.replay.clock_ahead = record["clock"] - record["at"]
        apply = _APPLIED.get(record["verb"])
        if apply is not None:
            apply(self.replay, record)
        if record["verb"] == "settle":
            handlers.check_lost(self.replay, self._watch, record)
            clock_steps.check_taken(self.replay, record)
        clock_steps.check_armed(self.replay, self._watch, record)

    def on_limits(self, record: Record) -> None:
        """Note the limits of the world."""
        limits.on_limits(self.replay, record)

    def on_invoke(self, record: Record) -> None:
        """Remember what was asked; an answer does not repeat it."""
        self._asks[record["call"]] = record["ask"]

    def on_ok(self, record: Record) -> None:
        """Note what a caller knows from now on."""
        if record["verb"] == "insert":
            submissions.on_insert_heard(self.replay, record)
        elif record["verb"] == "settle":
            settlements.on_settle_heard(self.replay, record, self._asks[record["call"]])

    def on_accepted(self, record: Record) -> None:
        """Note what a submitter was told at last."""
        submissions.on_accepted(self.replay, record)

    def on_workflow_accepted(self, record: Record) -> None:
        """Note that the submitter of a workflow was told that it is stored."""
        workflows.on_accepted(self.replay, record)

    def on_workflow_cancelled(self, record: Record) -> None:
        """Check what an acknowledged cancel of a workflow has left."""
        workflows.on_cancelled(self.replay, record)

    def on_waited(self, record: Record) -> None:
        """Check with what a handler went on after a wait."""
        waits.on_waited(self.replay, record)

    def on_start(self, record: Record) -> None:
        """Check the beginning of a handler."""
        handlers.on_start(self.replay, self._watch, record)

    def on_end(self, record: Record) -> None:
        """Check the end of a handler."""
        handlers.on_end(self.replay, self._watch, record)

    def on_fault(self, record: Record) -> None:
        """Note a fault."""
        handlers.on_fault(self.replay, self._watch, record)

    def on_boot(self, record: Record) -> None:
        """Note when a process started."""
        self.replay.booted_at[record["host"]] = record["at"]

    def on_blind(self, record: Record) -> None:
        """Note until when a host has not read the store's clock."""
        self.replay.blind_until[record["host"]] = record["at"]

    def on_sigterm(self, record: Record) -> None:
        """Note that a process was sent SIGTERM."""
        self._watch.sigterms[record["boot"]] = record

    def on_exit(self, record: Record) -> None:
        """Check how a process ended."""
        handlers.on_exit(self.replay, self._watch, record)

    def on_end_of_run(self, record: Record) -> None:
        """Remember when it was over."""
        self._end = record

    def close(self) -> None:
        """Check what only shows at the end."""
        fire_times.check_schedules(self.replay, self._end)
        final_state.check_final_state(self.replay)


_CHECKS: Final[dict[str, Callable[[HistoryCheck, Record], None]]] = {
    "apply": HistoryCheck.on_apply,
    "limits": HistoryCheck.on_limits,
    "invoke": HistoryCheck.on_invoke,
    "ok": HistoryCheck.on_ok,
    "accepted": HistoryCheck.on_accepted,
    "workflow_accepted": HistoryCheck.on_workflow_accepted,
    "workflow_cancelled": HistoryCheck.on_workflow_cancelled,
    "waited": HistoryCheck.on_waited,
    "start": HistoryCheck.on_start,
    "end": HistoryCheck.on_end,
    "fault": HistoryCheck.on_fault,
    "boot": HistoryCheck.on_boot,
    "blind": HistoryCheck.on_blind,
    "sigterm": HistoryCheck.on_sigterm,
    "exit": HistoryCheck.on_exit,
    "end_of_run": HistoryCheck.on_end_of_run,
}

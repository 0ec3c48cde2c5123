"""Event logging: a telemetry listener that writes a log line about every job that did not simply succeed.

It names the kind of an error and not its message, which may be confidential; the message is stored with the job, for
users that may read it.
"""

from __future__ import annotations

import logging
from typing import Final

from rota.core import lifecycle
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.settlement import Reason, Settlement
from rota.telemetry.events import BreakerChanged, Event, JobsSettled, LeaderChanged, LeasesLapsed
from rota.telemetry.logs import about

_log: Final = logging.getLogger("rota.jobs")
#: Reasons of jobs that are dead because their handler failed.
_FAILURES: Final = frozenset({Reason.EXHAUSTED, Reason.PERMANENT})


class EventLogger:
    """Logs failures, dead jobs, lapsed leases and changes of leader.

    With `is_beside_worker`, a worker in this process logs a failure as a warning itself; here it is an info then.
    """

    def __init__(self, *, is_beside_worker: bool = False) -> None:
        self._warned_of = _FAILURES if is_beside_worker else frozenset[Reason]()

    def on_event(self, event: Event) -> None:
        match event:
            case JobsSettled():
                for job, settlement in zip(event.jobs, event.settlements, strict=True):
                    if settlement.source is State.RUNNING and settlement.event is not lifecycle.Event.SUCCEED:
                        _write(
                            job, settlement, logging.INFO if settlement.reason in self._warned_of else logging.WARNING
                        )
            case LeasesLapsed():
                for job in event.jobs:
                    _log.warning("%s was taken from a worker that did not renew its lease", job.name, extra=about(job))
            case BreakerChanged():
                why = f": {event.reason}" if event.reason else ""
                level = logging.WARNING if event.action in {"opened", "forced_open"} else logging.INFO
                _log.log(level, "circuit breaker %s: %s%s", event.name, event.action.replace("_", " "), why)
            case LeaderChanged():
                _log.info("%s leads, in term %d", event.leadership.holder, event.leadership.term)
            case _:
                pass


def _write(job: Job, settlement: Settlement, level: int) -> None:
    kind = "" if settlement.error is None else f" with {settlement.error.kind}"
    match settlement.event:
        case lifecycle.Event.FAIL:
            message = "%s failed%s in attempt %d of %d and will be tried again"
            _log.info(message, job.name, kind, job.attempts, job.max_attempts, extra=about(job))
        case lifecycle.Event.EXHAUST:
            message = "%s is dead%s after attempt %d of %d (%s)"
            _log.log(
                level, message, job.name, kind, job.attempts, job.max_attempts, settlement.reason, extra=about(job)
            )
        case _:
            _log.debug("%s: %s", job.name, settlement.event, extra=about(job))

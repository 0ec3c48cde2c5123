"""The diary: a listener that writes a line about every job that did not simply succeed.

It names the kind of an error and not its message, which may hold what is nobody's business; the job shows the rest to
those who may see it.
"""

from __future__ import annotations

import logging
from typing import Final

from rota.core import lifecycle
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.settlement import Reason, Settlement
from rota.telemetry.events import Event, JobsSettled, LeaderChanged, LeasesExpired
from rota.telemetry.logs import about

_log: Final = logging.getLogger("rota.jobs")
#: Why a job is dead whose handler failed.
_FAILURES: Final = frozenset({Reason.EXHAUSTED, Reason.PERMANENT})


class Diary:
    """Writes down failures, deaths, losses and changes of leader.

    `is_beside_worker`: the worker in this process warns of a failure itself, with its message; here it is an info then.
    """

    def __init__(self, *, is_beside_worker: bool = False) -> None:
        self._warned_of = _FAILURES if is_beside_worker else frozenset[Reason]()

    def heard(self, event: Event) -> None:
        """Write about an event, if there is anything to say."""
        match event:
            case JobsSettled():
                for job, settlement in zip(event.jobs, event.settlements, strict=True):
                    if settlement.source is State.RUNNING and settlement.event is not lifecycle.Event.SUCCEED:
                        _write(
                            job, settlement, logging.INFO if settlement.reason in self._warned_of else logging.WARNING
                        )
            case LeasesExpired():
                for job in event.jobs:
                    _log.warning("%s was taken from a worker that did not renew", job.name, extra=about(job))
            case LeaderChanged():
                _log.info("%s leads, in term %d", event.leadership.holder, event.leadership.term)
            case _:
                pass


def _write(job: Job, settlement: Settlement, death: int) -> None:
    kind = "" if settlement.error is None else f" with {settlement.error.kind}"
    match settlement.event:
        case lifecycle.Event.FAIL:
            said = "%s failed%s in attempt %d of %d and will be tried again"
            _log.info(said, job.name, kind, job.attempts, job.max_attempts, extra=about(job))
        case lifecycle.Event.EXHAUST:
            said = "%s is dead%s after attempt %d of %d (%s)"
            _log.log(death, said, job.name, kind, job.attempts, job.max_attempts, settlement.reason, extra=about(job))
        case _:
            _log.debug("%s: %s", job.name, settlement.event, extra=about(job))

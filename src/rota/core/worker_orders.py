"""Orders from operators to workers, and the facts that workers report about their processes.

Orders are stored with the record of a process and reach it in the answer to its next heartbeat: a worker needs no open
port. Orders are a desired state and not messages, so an answer that is lost or read twice does no harm.
"""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from rota.core.value import value

#: How many of its jobs a worker names.
MOST_JOBS: Final = 50
#: How long the text of the stacks may be.
LONGEST_STACKS: Final = 60_000


class OrderVerb(StrEnum):
    """What an operator can order a worker to do."""

    #: Claim no more jobs; those that run go on.
    QUIET = "quiet"
    RESUME = "resume"
    #: Drain and end the process.
    STOP = "stop"
    #: Report the stack of each thread.
    STACKS = "stacks"


@value
class WorkerOrders:
    """The desired state of a worker. `stacks` counts the requests for its stacks."""

    quiet: bool = False
    stop: bool = False
    stacks: int = 0

    def after(self, verb: OrderVerb) -> WorkerOrders:
        """Return the orders after another one."""
        match verb:
            case OrderVerb.QUIET:
                return WorkerOrders(quiet=True, stop=self.stop, stacks=self.stacks)
            case OrderVerb.RESUME:
                return WorkerOrders(quiet=False, stop=self.stop, stacks=self.stacks)
            case OrderVerb.STOP:
                return WorkerOrders(self.quiet, stop=True, stacks=self.stacks)
            case OrderVerb.STACKS:
                return WorkerOrders(self.quiet, self.stop, self.stacks + 1)

    def text(self) -> str:
        """Return the orders as they are stored; nothing if there are none."""
        return "" if self == NO_ORDERS else json.dumps({"quiet": self.quiet, "stop": self.stop, "stacks": self.stacks})

    @staticmethod
    def of(text: str | None) -> WorkerOrders:
        """Read stored orders; without any there are none."""
        return WorkerOrders(**json.loads(text)) if text else NO_ORDERS


NO_ORDERS: Final = WorkerOrders()


@value
class OrderChange:
    """New orders for the process of a boot, valid only if they were `was`."""

    boot: str
    orders: WorkerOrders
    was: WorkerOrders


@value
class WorkerFacts:
    """What a worker reports about its process with each heartbeat. What the system does not report is None.

    `cpu` is in cores since the last heartbeat, `rss` in bytes. `sent_at` is by the worker's own clock: compared with
    the time of the store it shows how far the clock is off. `stacks` is the answer to the last request for them.
    """

    cpu: float | None = None
    rss: int | None = None
    fds: int | None = None
    threads_left_behind: int = 0
    is_quiet: bool = False
    jobs: tuple[str, ...] = ()
    sent_at: datetime | None = None
    stacks: str = ""
    stacks_at: datetime | None = None

    def text(self) -> str:
        """Return the facts as they are stored."""
        fields: dict[str, Any] = {
            "cpu": self.cpu,
            "rss": self.rss,
            "fds": self.fds,
            "threads_left_behind": self.threads_left_behind,
            "is_quiet": self.is_quiet,
            "jobs": self.jobs,
            "sent_at": _written(self.sent_at),
            "stacks": self.stacks,
            "stacks_at": _written(self.stacks_at),
        }
        return json.dumps({name: field for name, field in fields.items() if field})

    @staticmethod
    def of(text: str | None) -> WorkerFacts | None:
        """Read stored facts."""
        if not text:
            return None
        fields = json.loads(text)
        for name in ("sent_at", "stacks_at"):
            if name in fields:
                fields[name] = datetime.fromisoformat(fields[name])
        return WorkerFacts(**{**fields, "jobs": tuple(fields.get("jobs", ()))})


def _written(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()

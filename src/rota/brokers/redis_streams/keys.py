"""What our keys are called. All keys of a queue share a hash tag, so that one script of a cluster can reach them."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, unquote

from rota.core.band import Band
from rota.core.lane import Lane


class Keys:
    """The names under one prefix: the setting `redis_stream`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        #: Which queues anybody takes jobs from.
        self.queues = f"{prefix}:queues"
        #: Where readers hear of work, and dispatchers of room.
        self.bell = f"{prefix}:bell"
        #: Written to see whether the server takes writes.
        self.probe = f"{prefix}:probe"

    def of_queue(self, queue: str) -> str:
        """Give what all keys of a queue begin with. Braces and colons of its name are written otherwise."""
        return f"{self._prefix}:{{{quote(queue, safe='')}}}:"

    def lanes(self, queue: str) -> str:
        """Give where the lanes of a queue are listed that anybody takes jobs from."""
        return f"{self.of_queue(queue)}lanes"

    def stream(self, lane: Lane, band: Band) -> str:
        """Give the stream of a lane and a band."""
        return f"{self.of_queue(lane.queue)}{word(lane.type)}:{band}"

    def streams(self, lanes: Iterable[Lane]) -> list[tuple[str, Lane]]:
        """Give the streams of some lanes, the most urgent band of all of them first."""
        listed = list(lanes)
        return [(self.stream(lane, band), lane) for band in Band for lane in listed]


def word(text: str) -> str:
    """Write a name so that it cannot be taken for anything else."""
    return quote(text, safe="")


def name(text: str) -> str:
    """Read a name that `word` has written."""
    return unquote(text)

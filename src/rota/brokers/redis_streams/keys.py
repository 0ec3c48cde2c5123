"""Names of the keys in Redis. All keys of a queue share a hash tag, so that one script can use them in a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, unquote

from rota.core.queue import Lane, PriorityClass


class StreamKeys:
    """The key names under one prefix: the setting `redis_stream`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        #: The set of queues that have readers.
        self.queues = f"{prefix}:queues"
        #: The channel that notifies readers of jobs, and dispatchers of capacity.
        self.channel = f"{prefix}:bell"
        #: Written to check that the server accepts writes.
        self.probe = f"{prefix}:probe"

    def of_queue(self, queue: str) -> str:
        """Return the prefix of all keys of a queue. Braces and colons in its name are escaped."""
        return f"{self._prefix}:{{{quote(queue, safe='')}}}:"

    def lanes(self, queue: str) -> str:
        """Return the key of the sorted set of a queue's lanes that have readers."""
        return f"{self.of_queue(queue)}lanes"

    def rate(self, limit: str) -> str:
        """Return the key of a limit's rates. They share a hash tag: one script takes from several."""
        return f"{self._prefix}:{{rates}}:{quote(limit, safe='')}"

    def stream(self, lane: Lane, priority_class: PriorityClass) -> str:
        return f"{self.of_queue(lane.queue)}{escaped(lane.type)}:{priority_class}"

    def streams(self, lanes: Iterable[Lane]) -> list[tuple[str, Lane]]:
        """Return the streams of some lanes, those of the most urgent priority class first."""
        listed = list(lanes)
        return [(self.stream(lane, priority_class), lane) for priority_class in PriorityClass for lane in listed]


def escaped(text: str) -> str:
    """Escape a name for use in a key."""
    return quote(text, safe="")


def unescaped(text: str) -> str:
    """Reverse `escaped`."""
    return unquote(text)

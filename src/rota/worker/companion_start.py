"""The first moments of a companion: it lets go first who has work to do.

A worker that starts finds a backlog as often as not, on a machine where others start with it. Until its first beat a
companion has nothing to do but to take in what it is told, so it waits for a moment before it loads all that it needs,
which is as much work as thousands of jobs. Its first beat comes at the time that it would have come otherwise. Should
the worker die meanwhile, it is up as soon as it can be.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import time
from typing import Final

#: What comes within such a time is read together.
BREATH_SECONDS: Final = 0.05
_CHUNK: Final = 1 << 16
#: How a message begins, and the last one of a worker that ends as it should; as in leases.py, which loads too much.
_HEAD: Final = struct.Struct(">IB")
_GOODBYE: Final = 7


def listen(orders: int, seconds: float) -> bytes:
    """Take in what is said, for a while, or until there is nobody left to say anything."""
    heard: list[bytes] = []
    until = time.monotonic() + seconds
    # Not select(): the worker may have a thousand files open, and we have its numbers.
    ears = select.poll()
    ears.register(orders, select.POLLIN)
    while (left := until - time.monotonic()) > 0:
        if not ears.poll(left * 1000):
            break
        words = os.read(orders, _CHUNK)
        if not words:
            break
        heard.append(words)
        time.sleep(min(BREATH_SECONDS, left))
    return b"".join(heard)


def ends_in_goodbye(heard: bytes) -> bool:
    """Whether the worker has ended as it should, and there is nothing to be done for it."""
    place, word = 0, None
    while place + _HEAD.size <= len(heard):
        length, word = _HEAD.unpack_from(heard, place)
        place += _HEAD.size + length
    return word == _GOODBYE


def main() -> None:
    """Run as ``python -m rota.worker.companion_start ORDERS BELL ANSWERS LAST_WORDS SECONDS``."""
    # Whoever stops the worker stops it, not us: we end when it does.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    began_at = time.monotonic()
    orders, bell, answers, last_words = map(int, sys.argv[1:5])
    heard = listen(orders, float(sys.argv[5]))
    if ends_in_goodbye(heard):
        return
    from rota.worker.companion import accompany  # noqa: PLC0415 - what this is about

    accompany(orders, bell, answers, last_words, heard, began_at)


if __name__ == "__main__":
    main()

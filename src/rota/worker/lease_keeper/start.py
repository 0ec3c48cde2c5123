"""Entry point of the lease-keeper process: waits for a moment before it loads what it needs.

A worker often starts with a backlog, on a machine where others start with it. Until its first renewal the lease keeper
only has to read its messages, so it delays its imports, which cost as much CPU as thousands of jobs. The first renewal
comes at the same time as without the delay. If the worker dies meanwhile, the imports start at once.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import time
from typing import Final

#: Data that comes within such a time is read together.
READ_PAUSE_SECONDS: Final = 0.05
_READ_BYTES: Final = 1 << 16
#: Head and type of the last message of a worker that ends normally; as in protocol.py, whose imports are too expensive.
_HEAD: Final = struct.Struct(">IB")
_NORMAL_END: Final = 7


def read_for(orders: int, seconds: float) -> bytes:
    """Read messages for a while, or until the worker closes the pipe."""
    received: list[bytes] = []
    until = time.monotonic() + seconds
    # Not select(): it refuses descriptors above 1,023, and the worker may have more files open than that.
    poll = select.poll()
    poll.register(orders, select.POLLIN)
    while (left := until - time.monotonic()) > 0:
        if not poll.poll(left * 1000):
            break
        data = os.read(orders, _READ_BYTES)
        if not data:
            break
        received.append(data)
        time.sleep(min(READ_PAUSE_SECONDS, left))
    return b"".join(received)


def ends_normally(received: bytes) -> bool:
    """Return whether the worker has ended normally, so that nothing is left to do for it."""
    position, kind = 0, None
    while position + _HEAD.size <= len(received):
        length, kind = _HEAD.unpack_from(received, position)
        position += _HEAD.size + length
    return kind == _NORMAL_END


def main() -> None:
    """Run as ``python -m rota.worker.lease_keeper.start ORDERS WAKE_UP ANSWERS CRASH_TEXT SECONDS``."""
    # Signals to the process group are meant for the worker; this process ends when the worker does.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    started_at = time.monotonic()
    orders, wake_up, answers, crash_text = map(int, sys.argv[1:5])
    received = read_for(orders, float(sys.argv[5]))
    if ends_normally(received):
        return
    from rota.worker.lease_keeper.process import keep_leases  # noqa: PLC0415 - loaded late, see above

    keep_leases(orders, wake_up, answers, crash_text, received, started_at)


if __name__ == "__main__":
    main()

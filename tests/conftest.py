"""The order of the tests, and the sockets they leave open.

Those that take long come first, so that all test processes come to an end together: whoever has done its share takes
over what others have left, and only small ones are left then. A third of the processes begins with long tests that
compute, the others with those that mostly wait, for processes and leases: so the cores are busy all the while.

A test that ends while a connection is just being made can leave its socket to the collector of garbage, which warns of
it much later, in a test that has nothing to do with it. So each loop is asked for such sockets when it closes: they are
ended there, and the run says at its end whose they were.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest

_TESTS: Final = Path(__file__).parent
#: Folders and files of long tests, the longest first.
_COMPUTING: Final = (
    "simulation",
    "crash/test_power_cut.py",
    "conformance/model",
    "sdk/test_typing.py",
    "crash/test_failing_disk.py",
    "crash/test_neighbours.py",
    "scheduler/test_loop.py",
    "core/test_cron_oracles.py",
)
_WAITING: Final = (
    "crash/test_kill.py",
    "crash/test_postgres_kill.py",
    "crash/test_server_kill.py",
    "journeys",
    "dashboard",
    "bench",
    "coordination/test_etcd.py",
    "brokers/test_faults.py",
    "worker/test_processes.py",
    "worker/test_lease_keeper.py",
)
_left_open: list[str] = []
_close: Final = asyncio.SelectorEventLoop.close


def _close_with_its_sockets(loop: Any) -> None:  # noqa: ANN401 - what is asked of it has no name outside of asyncio
    if not loop.is_closed():
        left = [one for one in list(loop._transports.values()) if one._sock is not None]
        for transport in left:
            _left_open.append(f"{os.environ.get('PYTEST_CURRENT_TEST', 'between tests')}: {transport!r}")
            transport.abort()
        if left:
            loop.run_until_complete(asyncio.sleep(0))
    _close(loop)


def pytest_configure() -> None:
    """Have loops end what is left of their sockets."""
    asyncio.SelectorEventLoop.close = _close_with_its_sockets  # type: ignore[assignment, method-assign] # to see


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have each test process begin with its share of the long ones, and leave everything else as it was."""
    computing = sorted((item for item in items if _is_of(item, _COMPUTING)), key=lambda item: _rank(item, _COMPUTING))
    waiting = sorted((item for item in items if _is_of(item, _WAITING)), key=lambda item: _rank(item, _WAITING))
    rest = [item for item in items if not _is_of(item, (*_COMPUTING, *_WAITING))]
    items[:] = _dealt(waiting, computing, rest, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _dealt(
    waiting: list[pytest.Item], computing: list[pytest.Item], rest: list[pytest.Item], hands: int
) -> list[pytest.Item]:
    """Put the tests into the order in which as many test processes are handed equal shares, one after the other."""
    first = hands * 2 // 3
    long = [waiting[hand::first] for hand in range(first)]
    long += [computing[hand :: hands - first] for hand in range(hands - first)]
    if not first:
        long[0] += waiting
    left, dealt = iter(rest), list[pytest.Item]()
    count = len(waiting) + len(computing) + len(rest)
    for hand, share in enumerate(long):
        size = (count - len(dealt)) // (hands - hand)
        dealt += [*share, *islice(left, max(size - len(share), 0))]
    return [*dealt, *left]


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection (gc.freeze): they stay until the process ends."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the sockets that were left open to the process that reports."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_open"] = _left_open


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401 - xdist's
    """Take it from a test process that ends."""
    _left_open.extend(getattr(node, "workeroutput", {}).get("left_open", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Return which tests left sockets open."""
    if _left_open:
        terminalreporter.section("sockets left open")
        for line in _left_open:
            terminalreporter.line(line)


def _rank(item: pytest.Item, places: Sequence[str]) -> int:
    path = item.path.relative_to(_TESTS).as_posix()
    return next((rank for rank, place in enumerate(places) if path.startswith(place)), len(places))


def _is_of(item: pytest.Item, places: Sequence[str]) -> bool:
    return _rank(item, places) < len(places)

"""The order of the tests, and the sockets they leave open.

Those that take long come first, so that all test processes come to an end together.

A test that ends while a connection is just being made can leave its socket to the collector of garbage, which warns of
it much later, in a test that has nothing to do with it. So each loop is asked for such sockets when it closes: they are
ended there, and the run says at its end whose they were.
"""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path
from typing import Any, Final

import pytest

_TESTS: Final = Path(__file__).parent
_LONG: Final = ("crash", "simulation", "journeys", "conformance/model")
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
    """Bring the long ones to the front, and leave everything else as it was."""
    items.sort(key=_rank)


def pytest_collection_finish() -> None:
    """Have the collector of garbage leave ten thousand tests alone, which stay for as long as the process does."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what was left open to the process that reports."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_open"] = _left_open


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401 - xdist's
    """Take it from a test process that ends."""
    _left_open.extend(getattr(node, "workeroutput", {}).get("left_open", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which tests left sockets open."""
    if _left_open:
        terminalreporter.section("sockets left open")
        for line in _left_open:
            terminalreporter.line(line)


def _rank(item: pytest.Item) -> int:
    folder = item.path.relative_to(_TESTS).parent.as_posix()
    return next((rank for rank, name in enumerate(_LONG) if folder.startswith(name)), len(_LONG))

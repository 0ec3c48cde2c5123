"""The portal: calls that come while it closes are served or refused, and never wait forever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rota import Rota
from rota.core.errors import StoreUnavailable
from rota.sdk.portal import Portal


async def nothing() -> None:
    pass


async def test_a_call_after_the_end_is_refused() -> None:
    portal = Portal()
    portal.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        portal.call(nothing())
    with pytest.raises(StoreUnavailable, match="closed"):
        await portal.acall(nothing())


async def test_a_call_that_waits_while_the_portal_closes_fails_with_that_reason() -> None:
    portal = Portal()
    begun = threading.Event()

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        blocking = pool.submit(portal.call, forever())
        suspended = asyncio.create_task(portal.acall(forever()))
        await asyncio.sleep(0)
        await asyncio.to_thread(begun.wait, 60)
        await asyncio.to_thread(portal.close)
        with pytest.raises(StoreUnavailable, match="closed"):
            blocking.result(60)
        with pytest.raises(StoreUnavailable, match="closed"):
            await asyncio.wait_for(suspended, 60)


async def test_a_call_whose_caller_stops_waiting_is_cancelled() -> None:
    portal = Portal()
    waiting = asyncio.create_task(portal.acall(asyncio.sleep(60)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    portal.close()


async def test_what_was_asked_for_before_the_end_comes_before_the_last_thing() -> None:
    portal = Portal()
    done: list[str] = []

    async def note(word: str) -> None:
        done.append(word)

    portal.start(note("first"))
    portal.close(note("last"))
    assert done == ["first", "last"]


def test_an_app_that_is_linked_up_while_it_closes_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another test's server may be up in this process.
    others = set(threading.enumerate())
    app = Rota(str(tmp_path / "rota.db"))
    portal = app.portal
    close = portal.close

    def link_late(last: Coroutine[Any, Any, None] | None = None) -> None:
        portal.start(app.link())
        close(last)

    monkeypatch.setattr(portal, "close", link_late)
    app.close()
    left = set(threading.enumerate()) - others
    assert [thread.name for thread in left if thread.name.startswith("rota-")] == []

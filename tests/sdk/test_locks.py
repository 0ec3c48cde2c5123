"""Named locks of an app: on a file, on the local coordinator, and over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota import LockHeld, LockLost, Rota, RotaError
from rota.settings import Settings


@pytest.fixture(params=["file", "local", "http"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rota]:
    file = str(tmp_path / "one.db")
    here = Rota(file)
    if request.param == "local":
        here.configure(Settings(coordinator="local"))
    if request.param != "http":
        yield here
        here.close()
        return
    port = free_port()
    here.configure(Settings(port=port))
    with here.run(api=True):
        far = Rota(f"http://127.0.0.1:{port}")
        yield far
        far.close()


def free_port() -> int:
    import socket  # noqa: PLC0415

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def test_a_lock_has_one_holder_at_a_time_and_is_free_after_the_block(app: Rota) -> None:
    with app.lock("report") as lock:
        assert lock.is_held
        lock.check()
        first = lock.fence
        with pytest.raises(LockHeld, match="'report'"), app.lock("report", wait=0):
            pass
        with app.lock("other", wait=0):
            pass
    assert not lock.is_held
    with app.lock("report", wait=0) as lock:
        assert lock.fence > first


def test_a_waiter_gets_the_lock_once_it_is_released(app: Rota) -> None:
    order: list[str] = []
    is_waiting = threading.Event()

    def wait_for_it() -> None:
        is_waiting.set()
        with app.lock("report", wait="60s"):
            order.append("second")

    with app.lock("report"):
        waiter = threading.Thread(target=wait_for_it)
        waiter.start()
        is_waiting.wait()
        order.append("first")
    waiter.join()
    assert order == ["first", "second"]


async def test_async_code_has_the_same_locks(app: Rota) -> None:
    async with app.alock("report") as lock:
        assert lock.is_held
        with pytest.raises(LockHeld):
            async with app.alock("report", wait=0):
                pass
    assert not lock.is_held


async def test_a_lock_is_renewed_while_it_is_held(app: Rota) -> None:
    async with app.alock("report", hold="1s") as lock, asyncio.timeout(60):
        before = lock._trusted_until
        while lock._trusted_until < before + 2:
            assert lock.is_held
            await asyncio.sleep(0.05)
        with pytest.raises(LockHeld):
            async with app.alock("report", wait=0):
                pass


async def test_a_lost_lock_says_so_and_does_not_disturb_the_next_holder(app: Rota) -> None:
    async with app.alock("report", hold="1s") as lock:
        source = (await app.portal.acall(app.link())).locks
        assert source is not None
        await app.portal.acall(source().unlock("report", lock._holder))
        async with app.alock("report", wait=0) as next_lock, asyncio.timeout(60):
            while lock.is_held:  # noqa: ASYNC110 - time is what changes it
                await asyncio.sleep(0.05)
            with pytest.raises(LockLost, match="'report'"):
                lock.check()
            assert next_lock.is_held
    assert not next_lock.is_held


async def test_a_lock_that_was_released_from_outside_is_lost_although_no_other_took_it(app: Rota) -> None:
    """Another may have had it in between: the next renewal gets a new fence."""
    async with app.alock("report", hold="3s") as lock, asyncio.timeout(60):
        source = (await app.portal.acall(app.link())).locks
        assert source is not None
        await app.portal.acall(source().unlock("report", lock._holder))
        before = lock._trusted_until
        while lock.is_held:  # noqa: ASYNC110 - time is what changes it
            await asyncio.sleep(0.05)
        assert lock._trusted_until == before, "lost, and not trusted again"
        assert lock._is_lost
    async with app.alock("report", wait=0):
        pass


async def test_a_block_that_fails_releases_the_lock(app: Rota) -> None:
    with pytest.raises(ZeroDivisionError):
        async with app.alock("report"):
            raise ZeroDivisionError
    async with app.alock("report", wait=0) as lock:
        assert lock.is_held


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a,b", "x" * 201, 7, "a\n"])
def test_a_wrong_name_is_refused(name: str) -> None:
    with pytest.raises(RotaError, match=r"^name: .* without blank, comma or slash"):
        Rota().lock(name)


def test_wrong_times_are_refused() -> None:
    with pytest.raises(RotaError, match=r"^wait: 'soon' is not a duration"):
        Rota().lock("a", wait="soon")
    for hold in ("0.5s", "2d", 0):
        with pytest.raises(RotaError, match=r"^hold: .* between 1 s and 1 day"):
            Rota().alock("a", hold=hold)


def test_a_lock_object_is_not_entered_twice_at_once(app: Rota) -> None:
    lock = app.lock("report")
    with lock, pytest.raises(RotaError, match="this object is in use"):
        lock.__enter__()
    with lock:
        assert lock.is_held

"""The simulated loop: unmodified asyncio on virtual time, and processes that die and stop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simulation.clocks import GENESIS_MICROS, WallClock
from simulation.loop import Deadlock, EndOfTime, Livelock, SimulatedLoop, run
from simulation.no_io_loop import RealIoRefused, SimulationError


def now() -> float:
    return asyncio.get_running_loop().time()


def test_sleeping_takes_virtual_time_only() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400)
        return now()

    assert run(main(), end=1e6) == 86_400


def test_timers_come_in_the_order_of_their_times() -> None:
    async def main() -> list[float]:
        seen: list[float] = []
        loop = asyncio.get_running_loop()
        for delay in (3.0, 1.0, 2.0):
            loop.call_later(delay, lambda: seen.append(now()))
        await asyncio.sleep(4)
        return seen

    assert run(main()) == [1.0, 2.0, 3.0]


def test_a_cancelled_timer_does_not_run() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        loop = asyncio.get_running_loop()
        loop.call_later(1, seen.append, "cancelled").cancel()
        loop.call_later(1, seen.append, "kept")
        await asyncio.sleep(2)
        return seen

    assert run(main()) == ["kept"]


def test_callbacks_of_one_process_run_in_the_order_in_which_they_were_made_ready() -> None:
    async def main() -> list[int]:
        seen: list[int] = []
        for number in range(50):
            asyncio.get_running_loop().call_soon(seen.append, number)
        await asyncio.sleep(0)
        return seen

    assert all(run(main(), seed=seed) == list(range(50)) for seed in range(5))


def test_the_seed_decides_between_timers_of_one_moment() -> None:
    async def main() -> list[int]:
        seen: list[int] = []
        for number in range(10):
            asyncio.get_running_loop().call_later(1, seen.append, number)
        await asyncio.sleep(2)
        return seen

    orders = [run(main(), seed=seed) for seed in range(8)]
    assert len({tuple(order) for order in orders}) > 1
    assert orders == [run(main(), seed=seed) for seed in range(8)]


def test_the_seed_decides_between_processes() -> None:
    def play(seed: int) -> list[str]:
        loop = SimulatedLoop(seed)
        seen: list[str] = []
        for name in ("a", "b"):
            process = loop.create_process(name)
            for _ in range(5):
                loop.call_soon(seen.append, name, context=process.context)
        loop.call_later(1, loop.stop)
        loop.run_forever()
        loop.close()
        return seen

    assert len({tuple(play(seed)) for seed in range(8)}) > 1


def test_a_timeout_ends_a_wait_at_its_moment() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(100), 2)
        return now()

    assert run(main()) == 5


def test_a_task_group_cancels_its_other_tasks_when_one_fails() -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError

    async def main() -> list[int]:
        cancelled: list[int] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                cancelled.append(number)
                raise

        async def together() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(20):
                    group.create_task(wait(number))
                group.create_task(fail())

        with pytest.raises(ExceptionGroup):
            await together()
        assert now() == 1
        return cancelled

    first = run(main())
    # asyncio cancels in the order of a set; ours is the same every time because tasks hash to serial numbers.
    assert sorted(first) == list(range(20))
    assert run(main()) == first


def test_queues_events_and_gather_work() -> None:
    async def main() -> list[Any]:
        queue: asyncio.Queue[int] = asyncio.Queue(1)

        async def produce() -> None:
            for number in range(3):
                await queue.put(number)
                await asyncio.sleep(1)

        async def consume() -> list[int]:
            return [await queue.get() for _ in range(3)]

        _, consumed = await asyncio.gather(produce(), consume())
        return [*consumed, now()]

    assert run(main()) == [0, 1, 2, 3.0]


def test_a_cancelled_task_cleans_up() -> None:
    async def main() -> list[str]:
        seen: list[str] = []

        async def work() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(1)
                seen.append("cleaned up")

        task = asyncio.create_task(work())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return [*seen, str(now())]

    assert run(main()) == ["cleaned up", "2.0"]


def test_when_nobody_can_wake_anybody_it_is_a_deadlock() -> None:
    async def main() -> None:
        await asyncio.create_task(asyncio.Event().wait(), name="the one who waits")

    with pytest.raises(Deadlock, match="the one who waits"):
        run(main())


def test_a_world_that_does_not_end_is_ended() -> None:
    async def main() -> None:
        while now() < 1e9:  # noqa: ASYNC110 - it is to go on and on
            await asyncio.sleep(1)

    with pytest.raises(EndOfTime):
        run(main(), end=50)


def test_a_world_in_which_time_stands_still_is_ended() -> None:
    async def main() -> None:
        while now() < 1:  # noqa: ASYNC110 - it is to go on and on
            await asyncio.sleep(0)

    with pytest.raises(Livelock):
        run(main())


def test_an_exception_that_nobody_catches_ends_the_run() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(int, "not a number")
        await asyncio.sleep(1)

    with pytest.raises(SimulationError):
        run(main())


@pytest.mark.parametrize("failpoint", ["thread", "socket", "signal", "subprocess"])
def test_threads_sockets_and_signals_are_refused(failpoint: str) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        match failpoint:
            case "thread":
                await asyncio.to_thread(print)
            case "socket":
                await asyncio.open_connection("localhost", 80)
            case "signal":
                loop.add_signal_handler(15, print)
            case _:
                await asyncio.create_subprocess_exec("true")

    with pytest.raises(RealIoRefused):
        run(main())


def test_a_killed_process_is_gone_in_the_middle_of_an_await() -> None:
    loop = SimulatedLoop()
    seen: list[str] = []

    async def work() -> None:
        try:
            seen.append("began")
            await asyncio.sleep(5)
            seen.append("never")
        finally:
            # kill -9 gives nobody a chance to clean up; when the world has ended nobody listens any more.
            seen.append("cleaned up" if not loop.is_over else "after the end")

    process = loop.create_process("victim")
    loop.create_task(work(), context=process.context)
    loop.call_later(1, loop.kill, process)
    loop.call_later(10, loop.stop)
    loop.run_forever()
    assert seen == ["began"]
    loop.close()
    assert seen == ["began", "after the end"]


def test_a_paused_process_stands_still_and_catches_up() -> None:
    loop = SimulatedLoop()
    seen: list[float] = []

    async def work() -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(loop.time())

    process = loop.create_process("sleeper")
    loop.create_task(work(), context=process.context)
    loop.call_later(2.5, loop.pause, process)
    loop.call_later(7.5, loop.resume, process)
    loop.call_later(9, loop.stop)
    loop.run_forever()
    loop.close()
    assert seen == [1.0, 2.0, 7.5, 8.5]


def test_a_wall_clock_can_be_off_drift_and_be_corrected() -> None:
    async def main() -> list[float]:
        clock = WallClock(asyncio.get_running_loop())
        shown = []
        clock.step(-3600)
        await asyncio.sleep(10)
        shown.append((clock.micros() - GENESIS_MICROS) / 1e6)
        clock.drift(2.0)
        await asyncio.sleep(10)
        shown.append((clock.micros() - GENESIS_MICROS) / 1e6)
        clock.correct()
        clock.step(3600, for_good=True)
        clock.correct()
        shown.append((clock.micros() - GENESIS_MICROS) / 1e6)
        return shown

    assert run(main()) == [-3590.0, -3570.0, 3620.0]

"""`rota bench` in parts: refusals, calculations, the limits that it names, and what it deletes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rota.bench.completion import BenchCompletion
from rota.bench.http_connection import BenchConnection
from rota.bench.limits import Measurements, find_limits
from rota.bench.load import Load
from rota.bench.percentiles import Latencies, shown
from rota.bench.plan import BenchPlan
from rota.bench.run import PROBES, BenchRun
from rota.bench.targets import JobTimes, QueueCounts, RequestFailed, ServerUsage, Submitted, WorkerCapacity
from rota.cli.exits import Exit
from rota.cli.main import main
from rota.cli.output import Progress, say
from rota.core.lifecycle import State
from rota.runtime.store import open_store

PLAN = BenchPlan(seconds=0.3, connections=2, batch=1, payload='"x"', queue="rota-bench", tag="bench-1")

REFUSED = [
    (["--rate", "0"], "--rate 0: must be more than 0"),
    (["--rate", "nan"], "--rate nan"),
    (["--duration", "soon"], "--duration: 'soon' is not a duration"),
    (["--duration", "0"], "--duration 0: must be more than 0"),
    (["--connections", "0"], "--connections 0: must be between 1 and 1,000"),
    (["--batch", "1001"], "--batch 1001: must be between 1 and 1,000"),
    (["--payload-size", "1"], "--payload-size 1: must be between 2 and 1,048,576"),
    (["--batch", "1000", "--payload-size", "5000"], "the API takes 1,048,576"),
    (["--wait", "a while"], "--wait: 'a while' is not a duration"),
    (["-o", "csv"], "choose table, json or jsonl"),
    (["--durration", "1s"], "did you mean '--duration'"),
]


@pytest.mark.parametrize(("typed", "words"), REFUSED, ids=lambda value: value if isinstance(value, str) else None)
def test_a_bad_flag_is_refused_before_anything_is_sent(
    typed: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["bench", *typed, "--api-url", "http://127.0.0.1:9"])
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == Exit.USAGE
    said = capsys.readouterr().err
    assert words in said
    assert "fix: " in said


def test_an_unreachable_server_is_reported_as_by_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--api-url", "http://127.0.0.1:9"]) == Exit.UNREACHABLE
    assert "rota standalone" in capsys.readouterr().err


# Percentiles


def test_a_percentile_is_the_least_value_that_the_share_does_not_exceed() -> None:
    hundred = Latencies(number / 1000 for number in range(100, 0, -1))
    assert [hundred.percentile(share) for share in (0.5, 0.9, 0.99, 1)] == [0.05, 0.09, 0.099, 0.1]
    assert (hundred.longest, len(hundred)) == (0.1, 100)
    assert [Latencies([7.0]).percentile(share) for share in (0.01, 0.5, 0.99)] == [7.0, 7.0, 7.0]


@pytest.mark.parametrize(
    "values", [[0.0], [-1.0, 0.003], [1e-7], [0.001, 0.001], [0.0009, 0.0011, 0.3], [1e9], [0.0, 1e9], []]
)
def test_every_value_is_in_one_bar(values: list[float]) -> None:
    latencies = Latencies(values)
    bars = latencies.bars
    assert sum(bar.count for bar in bars) == len(values)
    for bar in bars:
        assert bar.count == sum(bar.above < value <= bar.up_to or value <= 0 == bar.above for value in values)
    assert len(list(latencies.lines())) == len(bars) + 1


def test_bars_and_percentiles_are_drawn_with_units_that_suit() -> None:
    lines = list(Latencies([0.0004, 0.0004, 0.0004, 0.0018]).lines())
    assert lines[0].split() == ["≤", "500", "µs", "█" * 40, "3"]
    assert lines[1].split() == ["≤", "1", "ms", "0"]
    assert lines[2].split() == ["≤", "2", "ms", "█" * 13 + "▍", "1"]
    assert lines[3] == "  p50 400 µs   p90 1.8 ms   p99 1.8 ms   max 1.8 ms"
    assert [shown(seconds) for seconds in (12.345, 0.1234, 1234.5)] == ["12.3 s", "123 ms", "1,234 s"]


# Limits

WELL = Measurements(rate=500, made=5_000, latency=0.020, client_cpu=0.2, server_cpu=0.3, host_cpu=0.4, round_trip=0.001)
SERVED = WorkerCapacity(workers=1, slots=10)
LIMITS = [
    ("none", replace(PLAN, rate=500), WELL, "500 of 500 jobs a second"),
    ("client_cpu", PLAN, replace(WELL, client_cpu=0.97), "97% of a core"),
    ("client_cpu", PLAN, replace(WELL, client_cpu=1.2, is_http=False), "including the engine and the driver"),
    ("server_cpu", PLAN, replace(WELL, server_cpu=0.95, store=0.019), "the API process's CPU: it used 95%"),
    ("host_cpu", PLAN, replace(WELL, host_cpu=0.99), "99% of all its cores"),
    ("store", PLAN, replace(WELL, store=0.018, alone=0.004), "18 ms of a submission's 20 ms are spent there; a single"),
    ("round_trip", PLAN, replace(WELL, round_trip=0.015), "15 ms of a submission's 20 ms"),
    ("callers", PLAN, WELL, "each of 2 waits 20 ms"),
    ("callers", replace(PLAN, rate=1_000), WELL, "each of 2 waits 20 ms"),
    ("errors", PLAN, replace(WELL, errors={"429 queue_full": 900, "timed out": 1}), "900 of them by '429 queue_full'"),
    ("errors", PLAN, replace(WELL, made=0, errors={"no connection (OSError)": 10}), "10 of 10 jobs were not stored"),
]


@pytest.mark.parametrize(("code", "plan", "measured", "words"), LIMITS, ids=lambda value: str(value)[:20])
def test_the_limit_is_named_with_the_figure_that_shows_it(
    code: str, plan: BenchPlan, measured: Measurements, words: str
) -> None:
    first = find_limits(plan, measured)[0]
    assert first.code == code
    assert words in first.text
    assert first.fix


RUNS = [
    ("queue_paused", WorkerCapacity(workers=1, slots=10, is_paused=True), BenchCompletion()),
    ("no_worker", WorkerCapacity(), BenchCompletion()),
    ("slots", SERVED, BenchCompletion(rate=100, busy=0.96)),
    ("workers", SERVED, BenchCompletion(rate=100, busy=0.4)),
]


@pytest.mark.parametrize(("code", "capacity", "completion"), RUNS, ids=lambda value: str(value)[:20])
def test_the_limit_of_the_workers_is_named(code: str, capacity: WorkerCapacity, completion: BenchCompletion) -> None:
    measured = replace(WELL, capacity=capacity, completion=completion)
    assert [one.code for one in find_limits(replace(PLAN, is_to_run=True), measured)] == ["callers", code]
    assert [one.code for one in find_limits(PLAN, measured)] == ["callers"]


def test_workers_that_keep_up_limit_nothing() -> None:
    measured = replace(WELL, capacity=SERVED, completion=BenchCompletion(rate=499, busy=0.2))
    assert [one.code for one in find_limits(replace(PLAN, is_to_run=True), measured)] == ["callers"]


def test_a_few_errors_are_not_the_limit() -> None:
    assert find_limits(PLAN, replace(WELL, errors={"timed out": 3}))[0].code == "callers"


# The load


@dataclass
class Rehearsed:
    """A target with configurable latency and failures."""

    name: str = "rehearsed"
    store: str = "none"
    is_http: bool = False
    slow: list[float] = field(default_factory=list)
    fails: bool = False
    may_look: bool = True
    may_discard: bool = True
    made: int = 0
    cancelled: list[str] = field(default_factory=list)

    async def submit(self, caller: int, count: int) -> Submitted:
        del caller
        if self.fails:
            raise RequestFailed("out of order")
        await asyncio.sleep(self.slow.pop(0) if self.slow else 0)
        self.made += count
        return Submitted([f"job-{self.made - number}" for number in range(count)])

    async def round_trip(self) -> None:
        pass

    async def usage(self) -> Sequence[ServerUsage]:
        return ()

    async def capacity(self) -> WorkerCapacity:
        if not self.may_look:
            raise RequestFailed("403 forbidden")
        return WorkerCapacity()

    async def counts(self) -> QueueCounts:
        return QueueCounts()

    async def times(self, ids: Sequence[str]) -> Sequence[JobTimes]:
        del ids
        return ()

    async def cancel(self, ids: Sequence[str]) -> None:
        if not self.may_look:
            raise RequestFailed("403 forbidden")
        self.cancelled += ids

    async def discard(self, ids: Sequence[str]) -> int:
        if not self.may_discard:
            raise RequestFailed("403 forbidden")
        return len(ids)

    async def close(self) -> None:
        pass


async def test_a_late_request_counts_from_when_it_was_due() -> None:
    """A pause of the server counts for all requests that were due meanwhile, not only for the one answered late."""
    target, stop = Rehearsed(slow=[0.4]), asyncio.Event()
    load = Load(replace(PLAN, seconds=60, connections=1, rate=20), target)
    running = asyncio.create_task(load.run(stop, lambda *_: None))
    while len(load.so_far.latencies) < 3:  # noqa: ASYNC110 - a load tells nobody
        await asyncio.sleep(0.01)
    stop.set()
    found = await running
    # The second was due after 0.05 s, the third after 0.1 s, and neither could be sent before 0.4 s.
    assert found.latencies[1] > 0.34
    assert found.latencies[2] > 0.29


async def test_a_caller_that_wakes_late_does_not_count_it_as_latency() -> None:
    load, stop = Load(replace(PLAN, seconds=60, connections=1, rate=2), Rehearsed()), asyncio.Event()
    running = asyncio.create_task(load.run(stop, lambda *_: None))
    while not load.so_far.latencies:  # noqa: ASYNC110 - a load tells nobody
        await asyncio.sleep(0)
    # The next is due in half a second, and no caller wakes before two have passed.
    time.sleep(2)  # noqa: ASYNC251 - the loop must stand still
    while len(load.so_far.latencies) < 2:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)
    stop.set()
    assert (await running).latencies[1] < 1


async def test_a_rate_is_kept_and_not_exceeded() -> None:
    target = Rehearsed()
    await Load(replace(PLAN, seconds=0.5, rate=100, batch=5), target).run(asyncio.Event(), lambda *_: None)
    assert target.made <= 50


async def test_failures_are_counted_by_kind_and_do_not_spin() -> None:
    found = await Load(replace(PLAN, batch=3, seconds=1), Rehearsed(fails=True)).run(asyncio.Event(), lambda *_: None)
    assert set(found.errors) == {"out of order"}
    # Two callers, a second, and a pause of 0.05 s after each failure.
    assert 3 <= found.errors["out of order"] <= 3 * 2 * 21
    assert not found.ids


async def test_an_interruption_ends_the_load_and_not_the_report() -> None:
    target = Rehearsed()
    bench = BenchRun(replace(PLAN, seconds=3_600), target, progress=Progress, say=lambda _: None)
    running = asyncio.create_task(bench.run())
    while target.made < 100:  # noqa: ASYNC110 - a load tells nobody
        await asyncio.sleep(0.01)
    bench.interrupt()
    report = await running
    assert report.is_interrupted
    assert report.record()["submitted"] == len(report.load.ids) > 0
    assert set(report.load.ids) <= set(target.cancelled)


async def test_a_token_that_may_only_submit_gets_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    report = await BenchRun(PLAN, Rehearsed(may_look=False), progress=Progress, say=say).run()
    assert report.load.ids
    assert report.left > len(report.load.ids)
    said = capsys.readouterr().err
    assert "cannot be cancelled: 403 forbidden" in said
    assert "rota jobs list --tag bench-1" in said


async def test_a_token_that_may_not_delete_still_cancels(capsys: pytest.CaptureFixture[str]) -> None:
    target = Rehearsed(may_discard=False)
    report = await BenchRun(PLAN, target, progress=Progress, say=say).run()
    assert set(report.load.ids) <= set(target.cancelled)
    assert (report.discarded, report.left) == (0, 0)
    assert capsys.readouterr().err.count("not deleted (403 forbidden)") == 1


# Connections


Server = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Server) -> AsyncIterator[BenchConnection]:
    """Listen, give a connection that leads there, and leave no socket behind."""
    ends: list[asyncio.Event] = []

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(ended := asyncio.Event())
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await serve(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    connection = BenchConnection(urlsplit(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    try:
        yield connection
    finally:
        connection.close()
        server.close()
        for ended in ends:
            await ended.wait()


@asynccontextmanager
async def answering(*answers: bytes) -> AsyncIterator[BenchConnection]:
    """Listen, give each request the next of the answers, and hang up after the last."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()

    async with listening(serve) as connection:
        yield connection


async def test_answers_are_read_however_they_come() -> None:
    plain = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    chunked = b"HTTP/1.1 429 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"
    async with answering(plain, chunked, plain) as connection:
        assert [await connection.ask("GET", "/") for _ in range(3)] == [(200, b"{}"), (429, b"abcd"), (200, b"{}")]


@pytest.mark.parametrize(
    ("head", "idle_seconds", "connections"),
    [("", 60.0, 1), ("Connection: close\r\n", 60.0, 2), ("", 0.0, 2)],
    ids=["kept open", "to be closed", "idle"],
)
async def test_a_connection_is_used_again_unless_it_may_be_closed_meanwhile(
    head: str, idle_seconds: float, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.bench.http_connection.IDLE_SECONDS", idle_seconds)
    seen = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        # It says what it will do, and takes its time.
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(f"HTTP/1.1 200 OK\r\n{head}Content-Length: 2\r\n\r\n{{}}".encode())

    async with listening(serve) as connection:
        assert [await connection.ask("GET", "/") for _ in range(2)] == [(200, b"{}")] * 2
    assert seen == connections


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(b"", "connection lost"), (b"what?\r\n", "an answer that is not HTTP")],
    ids=["none", "garbage"],
)
async def test_a_failed_connection_has_a_kind(answer: bytes, kind: str) -> None:
    async with answering(answer) as connection:
        with pytest.raises(RequestFailed) as failure:
            await connection.ask("GET", "/")
    assert failure.value.kind.startswith(kind)


async def test_a_refused_connection_has_a_kind() -> None:
    with pytest.raises(RequestFailed, match=r"no connection \(ConnectionRefusedError\)"):
        await BenchConnection(urlsplit("http://127.0.0.1:9")).ask("GET", "/")


# A store of its own


async def waiting_in(path: Path) -> int:
    store = await open_store(str(path))
    census = await store.census()
    await store.close()
    return census.total(State.PENDING, State.CANCELLED)


@pytest.mark.parametrize("extra", [[], ["--keep"]], ids=["cleaned", "kept"])
def test_a_store_is_loaded_and_left_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: list[str]
) -> None:
    path, is_left = tmp_path / "rota.db", bool(extra)
    assert main(["bench", "--store", str(path), "--duration", "300ms", "--batch", "10", "--json", *extra]) == Exit.OK
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert report["submitted"] >= 10
    assert report["submit"]["count"] == report["submitted"] / 10
    assert sum(bar["count"] for bar in report["submit"]["histogram"]) == report["submit"]["count"]
    assert report["limits"][0]["code"] in {"store", "client_cpu", "host_cpu", "callers"}
    assert report["measured"]["store_seconds"] > 0
    assert (report["discarded"], report["left"] > 0) == (None if is_left else report["submitted"] + PROBES, is_left)
    assert (asyncio.run(waiting_in(path)) > 0) == is_left
    assert "\r" not in printed.err, "no bar where nobody watches"


def test_a_bar_is_shown_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    bar = Progress("loading", 10)
    bar.show(5, "half")
    bar.end()
    bar.end()
    assert capsys.readouterr().err == f"\rloading {'█' * 15}{'░' * 15} half\033[K\n"

"""Records of the standard logging module become lines of the attempt's log, wherever the handler runs."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from rota.core.log_lines import LogLine, lines_of
from rota.worker import current, handler_of
from rota.worker.log_capture import add_record
from worker import child_handlers as children
from worker.environment import WorkerEnvironment, eventually

_logger = logging.getLogger("shop.mail")
_logger.setLevel(logging.INFO)


def _says() -> None:
    _logger.debug("not at this level")
    _logger.info("sent %d mails to postgres://ann:secret@db/x", 3)
    logging.getLogger("rota.worker").warning("Rota's own")
    try:
        raise LookupError("no such mail")
    except LookupError:
        _logger.exception("failed")
    current().log("by its context")


async def _says_on_the_loop() -> None:
    await asyncio.sleep(0)
    _says()


def _expected(lines: list[LogLine]) -> None:
    assert [(line.number, line.level, line.logger) for line in lines] == [
        (1, "info", "shop.mail"),
        (2, "error", "shop.mail"),
        (3, "info", ""),
    ]
    assert lines[0].message == "sent 3 mails to postgres://ann:***@db/x"
    assert lines[1].message.startswith("failed\nTraceback")
    assert lines[1].message.endswith("LookupError: no such mail")


@pytest.mark.parametrize("function", [_says, _says_on_the_loop])
async def test_the_records_of_a_handler_are_kept_with_its_attempt(env: WorkerEnvironment, function: object) -> None:
    async with env.worker(handler_of(function, type="says")):  # type: ignore[arg-type]
        job_id = await env.submit("says")
        await env.end_of(job_id)
    (attempt,) = await env.engine.store.attempts(job_id)
    _expected(list(lines_of(attempt.log_tail or "")))


def test_a_record_that_cannot_be_formatted_is_kept_as_it_is() -> None:
    lines: list[str] = []

    class Context:
        def add_line(self, _at: object, _level: str, message: str, _logger: str) -> None:
            lines.append(message)

    record = logging.makeLogRecord({"msg": "%d mails", "args": ("many",), "name": "shop"})
    add_record(Context(), record)  # type: ignore[arg-type]
    assert lines == ["'%d mails' (cannot be formatted: TypeError)"]


async def test_the_records_of_a_child_process_are_kept_too(env: WorkerEnvironment) -> None:
    async with env.worker(handler_of(children.logs_and_reports, executor="process")):
        job_id = await env.submit("logs_and_reports")
        await env.end_of(job_id)
    (attempt,) = await env.engine.store.attempts(job_id)
    assert [(line.logger, line.message) for line in lines_of(attempt.log_tail or "")] == [("shop", "from the child")]
    assert attempt.progress is not None


async def test_nothing_is_captured_when_it_is_switched_off(env: WorkerEnvironment) -> None:
    handler = handler_of(children.logs_and_reports, executor="process")
    async with env.worker(handler, capture_logs=False):
        job_id = await env.submit("logs_and_reports")
        await env.end_of(job_id)
    (attempt,) = await env.engine.store.attempts(job_id)
    assert attempt.log_tail is None


async def test_lines_and_progress_are_stored_while_the_handler_runs_and_within_a_second(env: WorkerEnvironment) -> None:
    release = threading.Event()
    said = threading.Event()

    def says() -> None:
        current().log("begun")
        current().progress(1, 2)
        said.set()
        release.wait(20)

    async with env.worker(handler_of(says)):
        job_id = await env.submit("says")
        await eventually(said.is_set)
        async with asyncio.timeout(1.0):
            while True:
                (attempt,) = await env.engine.store.attempts(job_id)
                if attempt.progress is not None:
                    break
                await asyncio.sleep(0.02)
        release.set()
        await env.end_of(job_id)
    assert [line.message for line in lines_of(attempt.log_tail or "")] == ["begun"]

"""Spans of a job belong to the trace of its submitter."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from api.environment import ApiEnvironment, api_environment, body_of
from core.builders import job as a_job
from rota import JobFailed, Rota
from rota.core.decision import DecisionInputs, decide
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.outcome import Succeeded
from rota.core.submission import Template
from rota.core.trace import is_traceparent, trace_of, traced
from rota.settings import Settings
from rota.telemetry.tracing import current_traceparent, spans_in_use, spans_to_send
from telemetry import traced_tasks

WORD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Where all spans of this process go, as in a program that has set OpenTelemetry up."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Rota]:
    traced_tasks.app.configure(Settings(), str(tmp_path / "rota.db"))
    yield traced_tasks.app
    traced_tasks.app.close()


def named(exporter: InMemorySpanExporter, name: str) -> ReadableSpan:
    (span,) = [span for span in exporter.get_finished_spans() if span.name == name]
    return span


@pytest.mark.parametrize("task", ["on_the_loop", "in_a_thread", "in_a_process"])
def test_a_run_is_a_part_of_its_submitters_trace(exporter: InMemorySpanExporter, app: Rota, task: str) -> None:
    tracer = trace.get_tracer("test")
    with app.run(), tracer.start_as_current_span("request") as request:
        answer = app.tasks[task].submit().result(timeout="30s")
    root = request.get_span_context()
    run, claim = named(exporter, f"run {task}"), named(exporter, "claim")
    assert answer == f"{root.trace_id:032x}"
    assert run.parent is not None
    assert (run.context.trace_id, run.parent.span_id) == (root.trace_id, root.span_id)
    assert [link.context.span_id for link in claim.links] == [root.span_id]
    assert run.status.is_unset
    if task != "in_a_process":
        inner = named(exporter, "inner")
        assert inner.parent is not None
        assert inner.parent.span_id == run.context.span_id


def test_a_failed_run_is_shown_as_one(exporter: InMemorySpanExporter, app: Rota) -> None:
    with app.run(), pytest.raises(JobFailed):
        traced_tasks.fails.submit().result(timeout="30s")
    run = named(exporter, "run fails")
    assert (run.status.status_code, run.status.description) == (trace.StatusCode.ERROR, "Failed")
    assert run.parent is None


def test_without_a_span_no_trace_context_is_stored(exporter: InMemorySpanExporter, app: Rota) -> None:
    del exporter
    assert current_traceparent() is None
    with app.run():
        assert traced_tasks.in_a_thread.submit().result(timeout="30s") is None


async def test_a_requests_header_is_kept_with_the_job_and_nonsense_is_not() -> None:
    async with api_environment() as env:
        assert await _meta_of(env, WORD) == {"traceparent": WORD}
        for nonsense in ("", "hello", f"ff{WORD[2:]}", WORD.replace(TRACE, "0" * 32), f"{WORD}-more"):
            assert await _meta_of(env, nonsense) in (None, {})


async def _meta_of(env: ApiEnvironment, word: str) -> object:
    client: httpx.AsyncClient = env.client
    job = body_of(await client.post("/v1/jobs", json={"type": "a"}, headers={"traceparent": word}), 201)
    return (await env.get(job["id"])).get("meta")


async def test_another_trace_makes_no_other_request() -> None:
    async with api_environment() as env:
        ids = {
            body_of(
                await env.client.post(
                    "/v1/jobs",
                    json={"type": "a", "idempotency_key": "k", "meta": {"traceparent": WORD[:-2] + flags}},
                    headers={"traceparent": WORD},
                ),
                status,
            )["id"]
            for flags, status in (("01", 201), ("00", 200))
        }
        assert len(ids) == 1


def test_what_follows_a_job_stays_in_its_trace() -> None:
    job = a_job(on_success=Template("next"), meta={"traceparent": WORD})
    settled = decide(job, Succeeded("1"), DecisionInputs(job.created_at, follow_up_id=JobId(2)))
    assert settled.follow_up is not None
    assert trace_of(settled.follow_up.meta) == TRACE


def test_a_word_that_is_there_is_not_replaced() -> None:
    assert traced({"traceparent": WORD}, f"{WORD[:-1]}0") == {"traceparent": WORD}
    assert is_traceparent(WORD)
    assert trace_of({"traceparent": "hello"}) is None


def test_without_opentelemetry_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spans_to_send("worker", {}) is None
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert spans_in_use() is None
    assert current_traceparent() is None
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(InvalidRequest, match=r"rota\[otel\]"):
        spans_to_send("worker", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})

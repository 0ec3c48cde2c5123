"""OpenTelemetry tracing: one span per claim and one per attempt, in the trace of the submitter.

OpenTelemetry is an extra and is imported only when traces are sent. A program that embeds Rota configures its own
provider. Rota's own processes send spans to `OTEL_EXPORTER_OTLP_ENDPOINT`, with the other variables of OpenTelemetry.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextvars import Context
from typing import Any, Final

from rota.core.errors import InvalidRequest
from rota.core.ids import to_text
from rota.core.job import Job
from rota.core.trace import TRACEPARENT
from rota.telemetry.events import Event, JobsClaimed

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
#: The most links of a claim's span, however many jobs it has.
MOST_LINKS: Final = 100


def current_traceparent() -> str | None:
    """Return the `traceparent` of the current span, if there is one."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


class Spans:
    """Makes spans; only created if OpenTelemetry is installed and in use."""

    def __init__(self) -> None:
        from opentelemetry import context, trace  # noqa: PLC0415 - an extra
        from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415 - an extra

        self._trace = trace
        self._attach = context.attach
        self._propagator = tracecontext.TraceContextTextMapPropagator()
        self._tracer = trace.get_tracer("rota")

    def begin(self, job: Job, worker: str, context: Context) -> Any:  # noqa: ANN401 - a span of OpenTelemetry's
        """Begin the span of an attempt, and make it the current one in a context."""
        span = self._tracer.start_span(
            f"run {job.type}",
            context=self._context_of(job),
            kind=self._trace.SpanKind.CONSUMER,
            attributes={
                "messaging.system": "rota",
                "messaging.destination.name": job.queue,
                "messaging.message.id": to_text(job.id),
                "rota.job.type": job.type,
                "rota.job.attempt": job.attempts,
                "rota.worker": worker,
            },
        )
        context.run(self._attach, self._trace.set_span_in_context(span, self._context_of(job)))
        return span

    def end(self, span: Any, failure: str | None) -> None:  # noqa: ANN401 - as above
        """End the span of an attempt, with its failure if there is one."""
        if failure is not None:
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, failure))
        span.end()

    def on_event(self, event: Event) -> None:
        """Make the span of a claim, with a link to each job's trace."""
        if not isinstance(event, JobsClaimed):
            return
        contexts = [self._span_context_of(job) for job in event.jobs[:MOST_LINKS] if TRACEPARENT in job.meta]
        if contexts:
            ended = time.time_ns()
            span = self._tracer.start_span(
                "claim",
                links=[self._trace.Link(one) for one in contexts],
                attributes={"messaging.system": "rota", "messaging.batch.message_count": len(event.jobs)},
                start_time=ended - int(event.seconds * 1e9),
            )
            span.end(ended)

    def _context_of(self, job: Job) -> Any:  # noqa: ANN401 - as above
        return self._propagator.extract({TRACEPARENT: job.meta.get(TRACEPARENT, "")})

    def _span_context_of(self, job: Job) -> Any:  # noqa: ANN401 - as above
        return self._trace.get_current_span(self._context_of(job)).get_span_context()


def spans_in_use() -> Spans | None:
    """Return a span maker if the embedding program has configured a provider."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    return Spans()


def spans_to_send(role: str, environment: Mapping[str, str] = os.environ) -> Spans | None:
    """Configure the export of spans for one of Rota's own processes, if its environment names an endpoint."""
    if not any(environment.get(name) for name in _ENDPOINTS):
        return None
    try:
        from opentelemetry import trace  # noqa: PLC0415 - an extra
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - an extra
    except ImportError as error:
        message = f"OTEL_EXPORTER_OTLP_ENDPOINT is set, but {error.name} is not installed"
        raise InvalidRequest(f"{message}; pip install 'rota[otel]', or unset it", field="otel") from None
    name = environment.get("OTEL_SERVICE_NAME", f"rota-{role}")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return Spans()

"""Spans reach the collector, in the trace of the request that submitted the job."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from journeys.system import System

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@contextmanager
def collector() -> Iterator[tuple[str, list[Span]]]:
    """Collect spans as OpenTelemetry's collector would, over HTTP."""
    spans: list[Span] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            for resource in ExportTraceServiceRequest.FromString(sent).resource_spans:
                spans.extend(span for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", spans
    server.shutdown()
    server.server_close()


def test_the_spans_of_a_job_are_sent_in_its_submitters_trace(system: System) -> None:
    with collector() as (url, spans):
        system.start(
            "standalone", "--port", str(system.port), "--db", system.store,
            environment={"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "100"},
        )  # fmt: skip
        system.until_up()
        word = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        httpx.post(f"{system.url}/jobs", json={"type": "echo"}, headers=word, timeout=30).raise_for_status()
        found = system.until(
            lambda: {span.name: span for span in spans}, lambda named: {"run echo", "claim"} <= named.keys()
        )
    run, claim = found["run echo"], found["claim"]
    assert (run.trace_id.hex(), run.parent_span_id.hex()) == (TRACE, PARENT)
    assert [link.trace_id.hex() for link in claim.links] == [TRACE]

"""Tasks that say which trace they run in."""

from __future__ import annotations

from typing import NoReturn

from opentelemetry import trace

from rota import GiveUp, Rota, current

app = Rota()


@app.task
async def on_the_loop() -> str | None:
    with trace.get_tracer("handler").start_as_current_span("inner"):
        return current().trace_id


@app.task
def in_a_thread() -> str | None:
    with trace.get_tracer("handler").start_as_current_span("inner"):
        return current().trace_id


@app.task(executor="process")
def in_a_process() -> str | None:
    return current().trace_id


@app.task
def fails() -> NoReturn:
    raise GiveUp("no")

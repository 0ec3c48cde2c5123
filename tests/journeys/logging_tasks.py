"""Tasks that write to the log, in every place where a handler can run."""

from __future__ import annotations

import logging

from rota import Rota

app = Rota()
_log = logging.getLogger("tasks")


@app.task
async def on_the_loop() -> None:
    _log.info("on the loop")


@app.task
def in_a_thread() -> None:
    _log.info("in a thread")


@app.task(executor="process")
def in_a_process() -> None:
    _log.info("in a process")

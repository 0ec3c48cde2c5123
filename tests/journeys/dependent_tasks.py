"""A task that calls a dependency over TCP, under a circuit breaker."""

from __future__ import annotations

import os
import socket

from rota import Breaker, Rota

app = Rota()
OPEN_SECONDS = float(os.environ.get("DEPENDENCY_OPEN_SECONDS", "1"))
_PORT = int(os.environ.get("DEPENDENCY_PORT", "0"))
BREAKER = Breaker("dependency", failures=0.5, window="10s", least=10, open_for=OPEN_SECONDS, probes=1)


@app.task(queue="calls", retry=3, breaker=BREAKER)
def call() -> str:
    with socket.create_connection(("127.0.0.1", _PORT), timeout=30) as connection:
        answer = connection.recv(16)
    if answer != b"ok":
        raise ConnectionError("the dependency closed the connection")
    return "ok"

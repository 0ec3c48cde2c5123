"""W16: what security costs a submit: the same load with a scoped token, TLS and a namespace, and without them.

The client speaks TLS as well, on the same machine, so the figure is of both ends together.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Final

from bench.drain import ROOT, system_for
from bench.fresh_stores import FreshStores
from bench.measure import Sample
from bench.workloads.results import Line, at_least
from journeys.system import System
from servers.certificates import Authority

CONNECTIONS: Final = 64
_TOKEN: Final = "0123456789abcdef0123456789abcdef"  # noqa: S105 - of a server that lives for seconds
KINDS: Final = ("open", "token", "token and TLS", "token, TLS and namespace")
_NAMESPACE: Final = "bench"


async def secured_submits(fresh_stores: FreshStores, *, seconds: float, rounds: int) -> list[Line]:
    """Measure the four servers in turn; only one of them runs at a time."""
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind, found in rates.items():
            url = await fresh_stores.fresh()
            async with system_for(url) as system:
                words = await asyncio.to_thread(_start, system, kind)
                await _load(system.port, 1, words)
                found.append(await _load(system.port, seconds, words))
    seen = {kind: Sample(tuple(found)) for kind, found in rates.items()}
    plain = seen["open"].median
    figures = {kind: f"{sample.median:,.0f}/s ({sample.spread})" for kind, sample in seen.items()}
    first, *others = KINDS
    return [Line("no token, no TLS, no namespace", figures[first])] + [
        Line(
            f"a scoped {kind}",
            figures[kind],
            "none",
            seen[kind].median / plain,
            None if kind == "token" else at_least(0.8),
        )
        for kind in others
    ]


def _start(system: System, kind: str) -> list[str]:
    """Serve the API, and return further arguments of the client: the token, and the authority."""
    if kind == "open":
        system.start("api", "--store", system.store, "--port", str(system.port))
        system.until_up()
        return []
    # The command creates the token over plain HTTP on this host; a second process then serves with TLS.
    system.variables["ROTA_TOKEN"] = _TOKEN
    first = system.start("api", "--store", system.store, "--port", str(system.port))
    system.until_up()
    where: tuple[str, ...] = ()
    if kind.endswith("namespace"):
        system.rota("namespaces", "create", _NAMESPACE)
        where = ("--namespace", _NAMESPACE)
    token = system.rota("token", "create", "load", "--role", "submitter", "--queues", "default", *where).strip()
    if kind == "token":
        return [token]
    first.terminate()
    first.wait()
    authority = Authority(system.folder)
    cert, key = authority.sign("server")
    tls = ("--tls-cert", str(cert), "--tls-key", str(key))
    system.start("api", "--store", system.store, "--port", str(system.port), *tls)
    _until_listening(system)
    return [token, str(authority.cert)]


def _until_listening(system: System) -> None:
    log = system.folder / f"log-{len(system.started) - 1}.txt"
    system.until(log.read_text, lambda text: "listening on https://" in text)


async def _load(port: int, seconds: float, words: list[str]) -> float:
    command = [sys.executable, "-m", "bench.http_client", str(port), str(CONNECTIONS), str(max(seconds, 1)), *words]
    running = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    said, _ = await running.communicate()
    answer = json.loads(said.splitlines()[-1])
    assert not answer["errors"], f"{answer['errors']:.0f} requests failed"
    return float(answer["requests"] / answer["seconds"])

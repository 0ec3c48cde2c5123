"""Access in real processes: every route with tokens that the command made, revocation, and a flood of wrong tokens."""

from __future__ import annotations

import http.client
import json
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from journeys.system import System
from rota.api.auth import PUBLIC_PATHS
from rota.api.router import Route
from rota.api.routes import ROUTES
from rota.core.access import QUEUE_ACTIONS, ROLES, Action, secret_of
from servers.private_server import free_port

ROOT = "0123456789abcdef0123456789abcdef"
ON_STORES = pytest.mark.parametrize("system", ["sqlite", "postgres", "mariadb"], indirect=True)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
WRONG = secret_of("aaaaaaaa", "b" * 32)


class Caller:
    """Sends requests over one connection, each from another address."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None
        self.count = 0

    def status(self, method: str, path: str, token: str | None = None) -> int:
        self.count += 1
        address = f"2001:db8:{self.count >> 16:x}:{self.count & 0xFFFF:x}::1"
        headers = {"X-Forwarded-For": address} | ({} if token is None else {"Authorization": f"Bearer {token}"})
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        self._connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            self._connection.putheader(name, value)
        self._connection.endheaders()
        response = self._connection.getresponse()
        is_stream = response.getheader("content-length") is None
        if not is_stream:
            response.read()
        status = response.status
        if is_stream or response.will_close:
            response.close()
            self.close()
        return status

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Stream:
    """A stream of events that is open, and read by a thread."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._connection.request("GET", "/v1/events/stream", headers={"Authorization": f"Bearer {token}"})
        self._response = self._connection.getresponse()
        assert self._response.status == 200
        self._ended_at = 0.0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while self._response.read1():
            pass
        self._ended_at = time.monotonic()

    def ended(self) -> float:
        """Wait for the end, and give its time."""
        self._thread.join(timeout=30)
        self._connection.close()
        return self._ended_at or time.monotonic()


def path_of(route: Route) -> str:
    return route.path.replace("{id}", "0000000000001").replace("{name}", "mail")


def tricks(path: str) -> Iterator[str]:
    """Spell a path so that a careless check could take it for another."""
    yield f"/{path}"
    yield f"{path}/"
    yield f"{path};livez"
    yield f"{path}%00"
    yield f"/livez/..{path}"
    yield f"/livez%2f..{path}"
    yield f"{path}/livez"
    yield f"{path}?path=/livez"
    yield path.replace("/v1/", "/V1/") if "/v1/" in path else path.upper()
    yield re.sub("(?<=/)([a-z])", lambda match: f"%{ord(match[1]):02x}", path, count=1)


def guarded(system: System, port: int) -> None:
    system.start(
        "api", "--store", system.store, "--port", str(port), "--behind-proxy", "127.0.0.1",
        environment={"ROTA_TOKEN": ROOT},
    )  # fmt: skip


@ON_STORES
def test_every_route_opens_as_declared_to_tokens_that_the_command_made(system: System) -> None:
    system.variables["ROTA_TOKEN"] = ROOT
    guarded(system, system.port)
    system.until_up()

    def create(name: str, *flags: str) -> str:
        return system.rota("token", "create", name, *flags).strip()

    by_role = {role: create(role, "--role", role) for role in ROLES}
    expired = create("expired", "--role", "admin", "--expires", "1s")
    revoked = create("revoked", "--role", "admin")
    system.rota("token", "revoke", "revoked", "--yes")
    elsewhere = create("elsewhere", "--role", "admin", "--queues", "elsewhere")
    caller = Caller(system.port)
    system.until(lambda: caller.status("GET", "/v1/jobs", expired), lambda status: status == 401)
    for route in ROUTES:
        where, path, is_open = f"{route.method} {route.path}", path_of(route), route.path in PUBLIC_PATHS
        for token in (None, WRONG, "hush", "", expired, revoked):
            assert (caller.status(route.method, path, token) == 401) != is_open, (where, token)
        for role, token in by_role.items():
            may = is_open or route.action is Action.SIGNED_IN or route.action in ROLES[role]
            status = caller.status(route.method, path, token)
            assert (status not in {401, 403}) == may, (where, role, status)
        if route.action in QUEUE_ACTIONS and route.queue_check.value in {"queue", "none"}:
            assert caller.status(route.method, path, elsewhere) in {403, 404}, where
    for path in {path_of(route) for route in ROUTES} - PUBLIC_PATHS:
        for method in METHODS:
            assert caller.status(method, path) in {401, 400, 501}, (method, path)
        for trick in tricks(path):
            assert caller.status("GET", trick) in {401, 400, 404}, trick
    assert caller.count > 25 * len(ROUTES)
    caller.close()


@ON_STORES
def test_a_revoked_token_is_refused_by_every_api_process_within_five_seconds(system: System) -> None:
    system.variables["ROTA_TOKEN"] = ROOT
    other = free_port()
    for port in (system.port, other):
        guarded(system, port)
    system.until_up()
    callers = [Caller(system.port), Caller(other)]
    token = system.rota("token", "create", "ci", "--role", "viewer").strip()

    def ask(caller: Caller) -> int:
        try:
            return caller.status("GET", "/v1/jobs", token)
        except OSError:
            return 0

    for caller in callers:
        system.until(lambda caller=caller: ask(caller), lambda status: status == 200)  # type: ignore[misc]
    streams = [Stream(port, token) for port in (system.port, other)]
    system.ask("DELETE", "/v1/tokens/ci", Authorization=f"Bearer {ROOT}")
    revoked_at = time.monotonic()
    for caller in callers:
        system.until(lambda caller=caller: caller.status("GET", "/v1/jobs", token), lambda status: status == 401)  # type: ignore[misc]
        caller.close()
    for stream in streams:
        assert stream.ended() - revoked_at <= 5.0
    assert time.monotonic() - revoked_at <= 5.0


FLOOD = 10_000
BURSTS = 10
CALLS = 200


def test_ten_thousand_wrong_tokens_fill_no_log_and_do_not_slow_others_down(system: System) -> None:
    """Wrong tokens of the right form from 100 addresses, while a good client goes on."""
    system.variables["ROTA_TOKEN"] = ROOT
    guarded(system, system.port)
    system.until_up()
    token = system.rota("token", "create", "good", "--role", "viewer").strip()

    def good() -> list[float]:
        caller, times = Caller(system.port), []
        for _ in range(CALLS):
            begun = time.perf_counter()
            assert caller.status("GET", "/v1/queues", token) == 200
            times.append(time.perf_counter() - begun)
        caller.close()
        return times

    def p99(times: list[float]) -> float:
        return statistics.quantiles(times, n=100)[98]

    good()
    alone: list[float] = []
    beside: list[float] = []
    statuses: Counter[str] = Counter()
    for _ in range(BURSTS):
        alone.append(p99(good()))
        # A process of its own: in a thread, the flood would slow the good client down by Python's lock.
        flooding = subprocess.Popen(
            [sys.executable, "-m", "journeys.flood", str(system.port), str(FLOOD // BURSTS)],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert flooding.stdin is not None
        assert flooding.stdout is not None
        assert flooding.stdout.readline() == "ready\n"
        flooding.stdin.write("begin\n")
        flooding.stdin.flush()
        while flooding.poll() is None:
            beside.append(p99(good()))
        statuses.update(json.loads(flooding.communicate()[0]))
    assert statuses.total() == FLOOD
    assert set(statuses) == {"401", "429"}
    log = system.logs()
    assert log.count("\n") < 40, log
    assert "rota_aaaa" not in log
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{system.url}/metrics", headers={"Authorization": f"Bearer {ROOT}", "Accept": "text/plain"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310 - our own server
        counted = response.read().decode().splitlines()
    rejected = [float(line.rpartition(" ")[2]) for line in counted if line.startswith("rota_http_rejected_total")]
    assert sum(rejected) >= FLOOD
    # By turns, so that whatever else runs here slows both down; the millisecond is for a scheduler that is busy.
    assert statistics.median(beside) <= 2 * statistics.median(alone) + 0.001, (alone, beside)


def test_a_wrong_password_is_limited_in_a_real_process(system: System) -> None:
    system.variables["ROTA_TOKEN"] = ROOT
    guarded(system, system.port)
    system.until_up()
    statuses = []
    for _ in range(12):
        try:
            system.ask("POST", "/v1/session", {"user": "ada", "password": "x" * 12})
        except urllib.error.HTTPError as error:
            statuses.append(error.code)
    assert statuses == [401] * 10 + [429] * 2

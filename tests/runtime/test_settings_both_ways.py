"""Every setting holds in a `rota …` process and in `app.run()` alike.

The table has a row for each setting. A new setting without a row fails the first test.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import shutil
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota import Rota
from rota.core.errors import InvalidRequest
from rota.runtime.assembly import AppDefinition, concurrency_of, queue_slots_of, queues_of
from rota.runtime.components import Components
from rota.runtime.namespace_stores import make
from rota.runtime.process import Process, plan_of, set_up_logs
from rota.settings import OPTIONS, read
from servers.certificates import Authority
from servers.private_server import free_port

HOME = "127.0.0.1"


@dataclass
class Started:
    """The components that a way to start has made, and where their API is."""

    components: Components

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        host, port = self.components._ports.api[0].getsockname()[:2]
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{host}:{port}{path}", data, {"Content-Type": "application/json", **headers}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - as above
                content = response.read()
                is_page = response.headers["Content-Type"].startswith("text/html")
                return response.status, content.decode() if is_page else json.loads(content)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def ended(self, type_: str, payload: object) -> dict[str, Any]:
        """Have a built-in type run, and give the job when it has ended."""
        _, job = self.ask("POST", "/v1/jobs", {"type": type_, "payload": payload, "max_attempts": 1})
        self.ask("GET", f"/v1/jobs/{job['id']}/result?wait=20")
        return dict(self.ask("GET", f"/v1/jobs/{job['id']}")[1])

    @property
    def options(self) -> Any:  # noqa: ANN401 - any option may be looked at
        assert self.components._worker is not None
        return self.components._worker.options

    @property
    def retention(self) -> Any:  # noqa: ANN401 - as above
        assert self.components.scheduler is not None
        return self.components.scheduler._pruner._retention


@dataclass(frozen=True)
class Row:
    """A setting, a value that is not its default, and how to see that it has an effect."""

    value: str
    seen: Callable[[Started], object]
    expected: object = True
    others: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[], None] = lambda: None


def _takes_hand_over(started: Started) -> bool:
    engine = started.components._link.engine
    assert engine is not None
    return engine.store.keeps_waiting_claims


def _broker(started: Started) -> Any:  # noqa: ANN401 - an adapter that only the runtime knows
    engine = started.components._link.engine
    assert engine is not None
    return engine.broker


def _coordinator(started: Started) -> str:
    assert started.components.membership is not None
    return type(started.components.membership.coordinator).__name__


def _retry(started: Started, name: str) -> object:
    _, job = started.ask("POST", "/v1/jobs", {"type": "nobody", "payload": None})
    return started.ask("GET", f"/v1/jobs/{job['id']}")[1]["retry"][name]


def _attempts(started: Started) -> object:
    _, job = started.ask("POST", "/v1/jobs", {"type": "nobody", "payload": None})
    return started.ask("GET", f"/v1/jobs/{job['id']}")[1]["max_attempts"]


def _pin_as_operators_see_it(s: Started) -> object:
    _, token = s.ask("POST", "/v1/tokens", {"name": "op", "role": "operator"})
    _, job = s.ask("POST", "/v1/jobs", {"type": "echo", "payload": {"pin": 1}, "delay": 60})
    return s.ask("GET", f"/v1/jobs/{job['id']}", Authorization=f"Bearer {token['secret']}")[1]["payload"]["pin"]


def _second_is_refused(started: Started) -> bool:
    return [started.ask("POST", "/v1/jobs", {"type": "nobody"})[0] for _ in range(2)] == [201, 429]


def _reaches_home(started: Started) -> bool:
    port = started.components._ports.api[0].getsockname()[1]
    return bool(started.ended("http", {"url": f"http://{HOME}:{port}/livez"})["status"] == "completed")


def _write(started: Started, content: str) -> str:
    job = started.ended("file", {"operation": "write", "path": "made.txt", "content": content})
    return str(job["status"])


def _mode_of_new_file(started: Started) -> str:
    assert _write(started, "x") == "completed"
    return f"{Path('made.txt').stat().st_mode & 0o777:o}"


FILES = {"ROTA_FILE_ROOT": "."}
REDIS = {"ROTA_BROKER": "redis://127.0.0.1:1"}
WORKER_PORT, API_PORT = free_port(), free_port()
FOLDER = Path(tempfile.mkdtemp(prefix="rota-certificates-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
AUTHORITY = Authority(FOLDER)
CERT, KEY = map(str, AUTHORITY.sign("server"))
TLS = {"ROTA_TLS_CERT": CERT, "ROTA_TLS_KEY": KEY}


def _context(started: Started) -> ssl.SSLContext:
    tls = started.components._ports.tls
    assert tls is not None
    return tls.context


ROWS: dict[str, Row] = {
    "store": Row("other.db", lambda _: Path("other.db").exists()),
    "namespace": Row(
        "acme",
        lambda s: s.ask("GET", "/v1/me")[1]["namespace"],
        "acme",
        prepare=lambda: asyncio.run(make("rota.acme.db")),
    ),
    "broker": Row(REDIS["ROTA_BROKER"], lambda s: type(_broker(s)).__name__, "RedisStreamsBroker"),
    "coordinator": Row("local", _coordinator, "LocalCoordinator"),
    "host": Row("127.0.0.2", lambda s: s.components._ports.api[0].getsockname()[0], "127.0.0.2"),
    "port": Row(str(API_PORT), lambda s: s.components._ports.api[0].getsockname()[1], API_PORT),
    "token": Row("hush", lambda s: s.ask("GET", "/v1/jobs")[0], 401),
    "tls_cert": Row(CERT, lambda s: _context(s).minimum_version, ssl.TLSVersion.TLSv1_2, TLS),
    "tls_key": Row(KEY, lambda s: _context(s).minimum_version, ssl.TLSVersion.TLSv1_2, TLS),
    "tls_client_ca": Row(str(AUTHORITY.cert), lambda s: _context(s).verify_mode, ssl.CERT_REQUIRED, TLS),
    "behind_proxy": Row(
        "127.0.0.0/8", lambda s: s.ask("GET", "/v1/jobs", **{"X-Forwarded-Host": "example.com"})[0], 403
    ),
    "proxy_user_header": Row(
        "X-User",
        lambda s: s.ask("GET", "/v1/jobs", **{"X-User": "nobody"})[0],
        401,
        {"ROTA_BEHIND_PROXY": "127.0.0.0/8", "ROTA_TOKEN": "0123456789abcdef0123456789abcdef"},
    ),
    "encryption_keys": Row(
        "k1=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        lambda s: "rota.encrypted" in str(s.ended("echo", 1)["result"]),
    ),
    "insecure": Row("yes", lambda s: s.ask("GET", "/v1/jobs", Host="example.com")[0], 200),
    "redact_keys": Row("pin,*-code", _pin_as_operators_see_it, "[redacted]"),
    "read_only": Row("yes", lambda s: s.ask("POST", "/v1/queues/mail/pause")[0], 403),
    "ui": Row("no", lambda s: s.ask("GET", "/ui")[0], 404),
    "worker_id": Row("ada", lambda s: s.options.name, "ada"),
    "worker_address": Row(f":{WORKER_PORT}", lambda s: s.options.address, f"{HOME}:{WORKER_PORT}"),
    "queues": Row("mail,reports", lambda s: s.options.queues, ("mail", "reports")),
    "concurrency": Row("3", lambda s: s.options.concurrency, 3),
    "lease": Row("33s", lambda s: s.options.lease, timedelta(seconds=33)),
    "poll_interval": Row("7s", lambda s: s.options.poll_interval, timedelta(seconds=7)),
    "hand_over": Row("no", _takes_hand_over, expected=False),
    "start_timeout": Row("9s", lambda s: s.components._settings.start_timeout, timedelta(seconds=9)),
    "drain_timeout": Row("9s", lambda s: s.options.drain_timeout, timedelta(seconds=9)),
    "queue_size": Row("1", _second_is_refused),
    "fail_rate": Row("1", lambda s: s.ended("echo", 1)["status"], "dead"),
    "capture_logs": Row("no", lambda s: s.options.capture_logs, expected=False),
    "max_attempts": Row("7", _attempts, 7),
    "backoff_base": Row("2500ms", lambda s: _retry(s, "base"), 2.5),
    "backoff_max": Row("55s", lambda s: _retry(s, "cap"), 55),
    "backoff_jitter": Row("0.25", lambda s: _retry(s, "jitter"), 0.25),
    "keep_completed": Row("3h", lambda s: s.retention.completed, timedelta(hours=3)),
    "keep_dead": Row("never", lambda s: s.retention.dead, None),
    "file_root": Row(".", lambda s: "file" in s.components._worker.member().types),  # type: ignore[union-attr, operator]
    "file_quota": Row("10", lambda s: _write(s, "x"), "dead", FILES),
    "file_mode": Row("604", _mode_of_new_file, "604", FILES),
    "builtin_timeout": Row("0.2s", lambda s: s.ended("sleep", {"duration": 30})["status"], "dead"),
    "allow_hosts": Row(HOME, _reaches_home),
    "redis_stream": Row("other", lambda s: _broker(s)._reader._keys.probe, "other:probe", REDIS),
    "redis_group": Row("others", lambda s: _broker(s)._reader._group, "others", REDIS),
    "log_level": Row("error", lambda _: logging.getLogger().level, logging.ERROR),
    "log_format": Row("json", lambda _: type(logging.getLogger().handlers[0].formatter).__name__, "JsonLines"),
}
#: What `app.run()` has no use for, each with a test of its own below.
PROCESS_ONLY = {"api_url", "app", "ca_file", "client_cert", "client_key"}


class Noted(list[Components]):
    """The components that were started, and what tells of it on the loop that waits."""

    event: asyncio.Event | None = None


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Noted:
    """Remember the components that were started."""
    seen = Noted()
    start = Components.start

    async def noted(self: Components) -> None:
        await start(self)
        seen.append(self)
        if seen.event is not None:
            seen.event.set()

    monkeypatch.setattr(Components, "start", noted)
    return seen


@contextmanager
def silent() -> Iterator[None]:
    """Let no log handler be set up, as in a program that has none."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROTA_PORT", "0")
    return monkeypatch


@contextmanager
def in_a_program(started: Noted) -> Iterator[Started]:
    with Rota().run(api=True):
        yield Started(started[0])


def in_a_process(started: Noted, look: Callable[[Started], None]) -> None:
    """Start what `rota standalone` starts, look at it, and end it as a signal does."""
    settings = read({}, dict(os.environ), Path.cwd())
    set_up_logs(settings)

    async def live() -> None:
        process = Process("standalone", settings, AppDefinition())
        running = asyncio.create_task(process.run())
        started.event = asyncio.Event()
        begun = asyncio.create_task(started.event.wait())
        await asyncio.wait([running, begun], return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        try:
            assert not running.done(), running.exception()
            await asyncio.to_thread(look, Started(started[0]))
        finally:
            process._on_signal()
            process._on_signal()
            await running

    asyncio.run(live())


def test_every_setting_has_a_row() -> None:
    assert set(ROWS) | PROCESS_ONLY == set(OPTIONS)


@pytest.mark.parametrize("way", ["program", "process"])
@pytest.mark.parametrize("name", list(ROWS))
def test_a_setting_holds_however_rota_is_started(
    name: str, way: str, started: Noted, environment: pytest.MonkeyPatch
) -> None:
    row = ROWS[name]
    row.prepare()
    for variable, value in row.others.items():
        environment.setenv(variable, value)
    environment.setenv(f"ROTA_{name.upper()}", row.value)

    def look(seen: Started) -> None:
        assert row.seen(seen) == row.expected

    with silent():
        if way == "process":
            in_a_process(started, look)
            return
        with in_a_program(started) as seen:
            look(seen)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("way", ["program", "process"])
def test_without_the_setting_the_effect_is_not_there(way: str, started: Noted) -> None:
    """Or a row would prove nothing."""
    looked: list[str] = []

    def look(seen: Started) -> None:
        for name, row in ROWS.items():
            if not row.others and not name.startswith("log_"):
                # What cannot even be looked at is not there either.
                with suppress(AttributeError, KeyError, IndexError):
                    assert row.seen(seen) != row.expected, name
                looked.append(name)

    with silent():
        if way == "process":
            in_a_process(started, look)
        else:
            with in_a_program(started) as seen:
                look(seen)
    assert looked


def test_an_app_over_http_cannot_run_jobs_in_its_own_process_and_says_so() -> None:
    with pytest.raises(InvalidRequest, match="needs a store"), Rota("http://127.0.0.1:1").run():
        pass


def test_a_worker_without_a_store_asks_the_api_that_the_setting_names() -> None:
    settings = read({}, {"ROTA_API_URL": "http://a:1,http://b:2"})
    keeper = plan_of("worker", settings).keeper
    assert keeper is not None
    assert keeper.argument["urls"] == ["http://a:1", "http://b:2"]


SLOTS = [
    ({"ROTA_QUEUES": "a:10,b:2"}, ("a", "b"), {"a": 10, "b": 2}, 12),
    ({"ROTA_QUEUES": "a:10,b:2", "ROTA_CONCURRENCY": "11"}, ("a", "b"), {"a": 10, "b": 2}, 11),
    ({"ROTA_QUEUES": "a:10,b"}, ("a", "b"), {"a": 10}, 10),
    ({"ROTA_QUEUES": "team:mail,a:1:2"}, ("team:mail", "a:1"), {"a:1": 2}, 10),
]


@pytest.mark.parametrize(("variables", "queues", "slots", "concurrency"), SLOTS)
def test_queues_may_have_slots_of_their_own(
    variables: dict[str, str], queues: tuple[str, ...], slots: dict[str, int], concurrency: int
) -> None:
    settings = read({}, variables)
    assert queues_of(settings, AppDefinition()) == queues
    assert queue_slots_of(settings) == slots
    assert concurrency_of(settings) == concurrency


def test_a_file_of_settings_holds_in_a_program_too(started: Noted, environment: pytest.MonkeyPatch) -> None:
    Path("rota.toml").write_text("concurrency = 4\n", encoding="utf-8")
    environment.delenv("ROTA_CONCURRENCY", raising=False)
    with Rota().run():
        assert Started(started[0]).options.concurrency == 4

"""A secret appears nowhere: one string is passed in every possible way, and searched for in all output."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from journeys.system import System
from rota.cli.main import main

#: Nothing else in an output can be like it.
CANARY = "kanarie7vogel"
#: A port without a listener.
AWAY = "127.0.0.1:9"

#: Settings with the secret in them: each name and value is one way in which it can be given.
WAYS = {
    "a store on PostgreSQL": ("store", f"postgresql://ada:{CANARY}@{AWAY}/db"),
    "a store on PostgreSQL, as a parameter": ("store", f"postgresql://ada@{AWAY}/db?sslmode=disable&password={CANARY}"),
    "a store on PostgreSQL, in words": ("store", f"host=127.0.0.1 port=9 user=ada password={CANARY} dbname=db"),
    "a store on MariaDB": ("store", f"mysql://ada:{CANARY}@{AWAY}/db"),
    "a store on MariaDB, as Go programs write it": ("store", f"ada:{CANARY}@tcp({AWAY})/db"),
    "a store of an unknown kind": ("store", f"oracle://ada:{CANARY}@{AWAY}/db"),
    "a store with a wrong port": ("store", f"postgresql://ada:{CANARY}@127.0.0.1:nine/db"),
    "a store with an odd password": ("store", f"postgresql://ada:p@s/s:{CANARY}@{AWAY}/db"),
    "a broker": ("broker", f"redis://ada:{CANARY}@{AWAY}/0"),
    "a broker without a user": ("broker", f"redis://:{CANARY}@{AWAY}"),
    "a broker with a wrong port": ("broker", f"redis://ada:{CANARY}@127.0.0.1:nine"),
    "a broker of an unknown kind": ("broker", f"amqp://ada:{CANARY}@{AWAY}"),
    "a coordinator": ("coordinator", f"etcd://ada:{CANARY}@{AWAY}"),
    "a coordinator with a wrong port": ("coordinator", f"etcd://ada:{CANARY}@127.0.0.1:nine"),
    "a coordinator of an unknown kind": ("coordinator", f"consul://ada:{CANARY}@{AWAY}"),
    "an API": ("api_url", f"http://ada:{CANARY}@{AWAY}"),
    "an API, as a parameter": ("api_url", f"http://{AWAY}/?token={CANARY}"),
    "an API of an unknown kind": ("api_url", f"ftp://ada:{CANARY}@{AWAY}"),
    "a token": ("token", CANARY),
    "a token that cannot be one": ("token", f"{CANARY} ä"),
}  # fmt: skip

#: Commands that print settings, or fail because something is away.
COMMANDS = (
    "config show --origin",
    "config show -o json",
    "status -v",
    "submit -v --type echo",
    "jobs list -v",
    "db status -v",
    "db check -v",
    "ledger verify -v",
    "bench -v --duration 0.1s",
)
SOURCES = ("flag", "environment", "file")
#: The settings that have a flag everywhere; those of a store have one where a store is opened.
_FLAGS = {"api_url": "--api-url", "token": "--token", "store": "--store"}


def _ran(typed: str, more: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with suppress(SystemExit):
        main([*typed.split(), *more])
    seen = capsys.readouterr()
    return seen.out + seen.err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith("ROTA_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return tmp_path


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("way", WAYS)
def test_no_command_prints_a_secret(
    way: str, source: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, value = WAYS[way]
    more = []
    if source == "file":
        (folder / "rota.toml").write_text(f'{name} = "{value}"\n')
    elif source == "environment":
        monkeypatch.setenv(f"ROTA_{name.upper()}", value)
    else:
        more = [_FLAGS.get(name, f"--{name}"), value]
    for typed in COMMANDS:
        printed = _ran(typed, more, capsys)
        assert CANARY not in printed, f"rota {typed}\n{printed}"
        assert printed, f"rota {typed} printed nothing"
    assert not list(folder.glob(f"*{CANARY}*")), "no file is named by a secret"


def _started(folder: Path, way: str, words: tuple[str, ...]) -> str:
    """Run a role that cannot start, or not for long, and give all that it wrote."""
    name, value = WAYS[way]
    clean = {key: known for key, known in os.environ.items() if not key.startswith("ROTA_")}
    variables = {
        "ROTA_LOG_LEVEL": "debug",
        "ROTA_START_TIMEOUT": "0.2s",
        "ROTA_PORT": "0",
        f"ROTA_{name.upper()}": value,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "rota", *words], cwd=folder, env=clean | variables, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        written, _ = process.communicate(timeout=3)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        written, _ = process.communicate(timeout=60)
    return written


STARTS = [(way, form) for way in WAYS for form in ("text", "json")]


def test_no_process_writes_a_secret_as_it_starts(tmp_path: Path) -> None:
    def start(number: int) -> tuple[str, str, str]:
        way, form = STARTS[number]
        own = tmp_path / str(number)
        own.mkdir()
        role = "worker" if WAYS[way][0] == "api_url" else "standalone"
        return way, form, _started(own, way, (role, "-v", "--log-format", form))

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(start, range(len(STARTS))))
    for way, form, written in found:
        assert CANARY not in written, f"{way}, {form}:\n{written}"
        assert written, f"{way}, {form}: nothing was written"
    assert not list(tmp_path.rglob(f"*{CANARY}*")), "no file is named by a secret"


TASKS = f"""
from rota import Rota

app = Rota()


@app.task(name="fails", executor="process")
def fails() -> None:
    raise OSError("cannot reach postgresql://ada:{CANARY}@db/x")


@app.task(name="waits", executor="process")
def waits() -> None:
    import time

    time.sleep(60)
"""
#: The answers of a server to all readers.
PAGES = (
    "/health",
    "/metrics",
    "/v1/system",
    "/v1/cluster",
    "/v1/workers",
    "/v1/stats",
    "/leader",
    "/openapi.json",
    "/docs",
)


def _page(system: System, path: str, accept: str = "*/*") -> str:
    headers = {"Accept": accept, "Authorization": f"Bearer {CANARY}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(system.url + path, headers=headers), timeout=60) as page:  # noqa: S310
            return str(page.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()


def _own_processes(system: System) -> dict[int, str]:
    """Return the command lines of the processes that were started and of all that they started themselves."""
    found: dict[int, tuple[int, str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            found[int(folder.name)] = (parent, (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    own = {process.pid for process in system.started}
    while more := {pid for pid, (parent, _) in found.items() if parent in own} - own:
        own |= more
    return {pid: found[pid][1] for pid in own if pid in found}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("system", ["postgres"], indirect=True)
def test_a_deployment_with_secrets_shows_them_nowhere(system: System, form: str) -> None:
    """Its store and API take the secret; its broker and its coordinator are away, which it logs."""
    (system.folder / "tasks.py").write_text(TASKS)
    store = re.sub(r"//(\w+)@", rf"//\1:{CANARY}@", system.store)
    assert CANARY in store
    shared = {"ROTA_TOKEN": CANARY, "ROTA_LOG_LEVEL": "debug", "ROTA_LOG_FORMAT": form, "ROTA_APP": "tasks:app"}
    shared["PYTHONPATH"] = str(system.folder)
    away = {"ROTA_BROKER": f"redis://ada:{CANARY}@{AWAY}", "ROTA_COORDINATOR": f"etcd://ada:{CANARY}@{AWAY}"}
    system.variables = shared | away | {"ROTA_STORE": store}
    system.start("scheduler", "--port", str(system.port))
    system.until_up()
    system.start("worker", "--worker-id", "on-the-store")
    system.variables = shared
    system.start("worker", "--worker-id", "over-http", "--queues", "http")
    token = {"Authorization": f"Bearer {CANARY}"}

    def submitted(kind: str, queue: str) -> str:
        job: str = system.ask("POST", "/v1/jobs", {"type": kind, "queue": queue, "max_attempts": 1}, **token)["id"]
        return job

    def status(job_id: str) -> str:
        return str(system.ask("GET", f"/v1/jobs/{job_id}", **token)["status"])

    for queue in ("default", "http"):
        for kind, wanted in (("fails", "dead"), ("waits", "running")):
            job_id = submitted(kind, queue)
            system.until(lambda: status(job_id), lambda seen: seen == wanted)  # noqa: B023 - at once
    running = _own_processes(system)
    assert any("lease_keeper" in line for line in running.values()), f"no lease keeper: {running}"
    assert len(running) >= 3 + 2 + 2, f"three processes, two lease keepers, two children: {running}"
    shown = {path: _page(system, path) for path in PAGES} | {"scrape": _page(system, "/metrics", "text/plain")}
    shown["wrong token"] = _page(system, f"/v1/jobs?token={CANARY}")
    shown["status"] = system.rota("status")
    shown["settings"] = system.rota("config", "show", "--origin")
    # The lease keepers have their say when their workers die.
    for worker in system.started[1:]:
        worker.kill()
        worker.wait()
    children = set(running) - {process.pid for process in system.started}
    system.until(lambda: {pid for pid in children if Path(f"/proc/{pid}").exists()}, lambda left: not left)
    system.started[0].send_signal(signal.SIGTERM)
    system.started[0].wait(60)
    shown["log"] = "\n".join(path.read_text(errors="replace") for path in sorted(system.folder.glob("log-*.txt")))
    shown |= {f"process {pid}": line for pid, line in running.items()}
    for where, text in shown.items():
        assert CANARY not in text, f"{where}:\n{_around(text)}"
    assert AWAY in shown["log"], "the log tells of what is away"


def _around(text: str) -> str:
    place = text.index(CANARY)
    return text[max(place - 500, 0) : place + 200]

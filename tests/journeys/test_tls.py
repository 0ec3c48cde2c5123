"""TLS in real processes: every way to start, every client, renewal by a signal, and what is refused at the start."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from journeys.system import System
from rota import Rota
from servers.certificates import Authority
from servers.private_server import free_port, required

STRONG = "0123456789abcdef0123456789abcdef"
_LISTEN = "0A"


class SecuredSystem(System):
    """A system whose API uses TLS."""

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def secured(system: System, ours: Authority) -> SecuredSystem:
    """Open a system with a certificate, whose clients trust its authority."""
    cert, key = ours.sign("server")
    for source, target in ((cert, "server.pem"), (key, "server.key")):
        shutil.copy(source, system.folder / target)
    variables = {"ROTA_CA_FILE": str(ours.cert), "ROTA_TLS_CERT": "server.pem", "ROTA_TLS_KEY": "server.key"}
    return SecuredSystem(system.folder, system.store, variables=variables, started=system.started)


def until_up(system: SecuredSystem, ca: Path, port: int | None = None, path: str = "/readyz") -> None:
    context = ssl.create_default_context(cafile=str(ca))

    def look() -> bool:
        url = f"https://127.0.0.1:{port or system.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=10, context=context):
                return True
        except OSError:
            return False

    system.until(look, bool)


def served_certificate(system: SecuredSystem, port: int | None = None) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port or system.port))


def test_a_worker_over_tls_runs_jobs_that_the_command_and_the_python_api_submit(
    secured: SecuredSystem, ours: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    secured.start("scheduler", "--port", str(secured.port), "--store", secured.store)
    until_up(secured, ours.cert)
    port = free_port()
    # A lease so short that its keeper must renew it over TLS too.
    secured.start("worker", "--api-url", secured.url, "--lease", "3s", "--worker-address", f":{port}")
    until_up(secured, ours.cert, port)
    assert secured.rota("submit", "--type", "echo", "--payload", "17", "--wait", "30s").split()[-1] == "17"
    monkeypatch.setenv("ROTA_CA_FILE", str(ours.cert))
    app = Rota(secured.url)
    handle = app.submit_by_name("sleep", {"duration": 5})
    handle.result(timeout=30)
    app.close()
    assert '"state": "completed"' in secured.rota("jobs", "get", handle.id, "-o", "json").replace("status", "state")
    assert "lease" not in secured.logs()


def test_a_command_without_the_authority_is_refused_with_the_reason(secured: SecuredSystem, ours: Authority) -> None:
    secured.start("api", "--port", str(secured.port), "--store", secured.store)
    until_up(secured, ours.cert)
    del secured.variables["ROTA_CA_FILE"]
    done = subprocess.run(
        [sys.executable, "-m", "rota", "jobs", "list"],
        env=secured.environment,
        cwd=secured.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 8, done.stderr
    assert "CERTIFICATE_VERIFY_FAILED" in done.stderr
    assert "--ca-file" in done.stderr
    secured.rota("jobs", "list", "--ca-file", str(ours.cert))


def test_a_process_asks_for_client_certificates(secured: SecuredSystem, ours: Authority) -> None:
    secured.start("standalone", "--tls-client-ca", str(ours.cert), "--port", str(secured.port), "--db", secured.store)
    cert, key = map(str, ours.sign("client"))
    secured.until(lambda: _listening(secured.started[-1].pid), lambda ports: secured.port in ports)
    secured.rota("jobs", "list", code=8)
    secured.rota("submit", "--type", "echo", "--wait", "30s", "--client-cert", cert, "--client-key", key)


def test_a_hangup_renews_the_certificate_of_every_port(secured: SecuredSystem, ours: Authority) -> None:
    port = free_port()
    process = secured.start(
        *("standalone", "--port", str(secured.port), "--store", secured.store, "--worker-address", f":{port}")
    )
    until_up(secured, ours.cert)
    until_up(secured, ours.cert, port)
    before = served_certificate(secured)
    assert served_certificate(secured, port) == before
    cert, key = ours.sign("renewed")
    shutil.copy(cert, secured.folder / "server.pem")
    shutil.copy(key, secured.folder / "server.key")
    process.send_signal(signal.SIGHUP)
    after = secured.until(lambda: served_certificate(secured), lambda seen: seen != before)
    assert after == served_certificate(secured, port) == cert.read_text()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


PROGRAM = """
import os
from rota import Rota

app = Rota("program.db")
app.serve(api=True)
"""


def test_a_program_that_serves_speaks_tls_and_renews_its_certificate(secured: SecuredSystem, ours: Authority) -> None:
    (secured.folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=secured.folder,
        env=secured.environment | {"ROTA_PORT": str(secured.port)},
        start_new_session=True,
    )
    secured.started.append(process)
    until_up(secured, ours.cert)
    before = served_certificate(secured)
    cert, key = ours.sign("renewed")
    shutil.copy(cert, secured.folder / "server.pem")
    shutil.copy(key, secured.folder / "server.key")
    process.send_signal(signal.SIGHUP)
    secured.until(lambda: served_certificate(secured), lambda seen: seen != before)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_a_process_with_a_wrong_file_does_not_start(secured: SecuredSystem) -> None:
    (secured.folder / "server.key").write_text("", encoding="utf-8")
    for arguments in (("api", "--port", "0"), ("standalone", "--port", "0"), ("worker", "--worker-address", ":0")):
        process = secured.start(*arguments, "--store", secured.store)
        assert process.wait(30) == 2
    assert secured.logs().count("tls_key: 'server.key' is not usable: it is no PEM key") == 3


# The start matrix


def _listening(pid: int) -> set[int]:
    """Return the ports on which anything in the network of a process listens, from the kernel."""
    ports = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text(encoding="ascii").splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == _LISTEN:
                ports.add(int(local.rpartition(":")[2], 16))
    return ports


def _starts(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until a process listens or ends, and say whether it listens."""
    give_up_at = time.monotonic() + 60
    while process.poll() is None:
        assert time.monotonic() < give_up_at
        try:
            if port in _listening(process.pid):
                return True
        except (FileNotFoundError, ProcessLookupError, OSError):
            break
        time.sleep(0.02)
    return False


ROLES = {
    "api": ("api", "--host", "0.0.0.0", "--port", "8080", "--store", "x.db"),  # noqa: S104 - in a network of its own
    "scheduler": ("scheduler", "--host", "::", "--port", "8080", "--store", "x.db"),
    "standalone": ("standalone", "--host", "0.0.0.0", "--port", "8080", "--store", "x.db"),  # noqa: S104 - as above
    "worker": ("worker", "--worker-address", "0.0.0.0:8080", "--store", "x.db"),
}
TOKENS = {"none": "", "weak": "hush", "strong": STRONG}
PROTECTIONS = {
    "tls": {"ROTA_TLS_CERT": "server.pem", "ROTA_TLS_KEY": "server.key"},
    "proxy": {"ROTA_BEHIND_PROXY": "10.0.0.0/8"},
}


@pytest.mark.parametrize("role", list(ROLES))
def test_nothing_listens_beyond_this_machine_unprotected(secured: SecuredSystem, role: str) -> None:
    """Each process has a network of its own, and the kernel says whether it listens there."""
    required(shutil.which("unshare"), "no unshare to make a network with: install util-linux")
    secured.variables = {}
    combinations = list(itertools.product(TOKENS, ("none", "tls", "proxy"), (False, True)))
    # All of them for one role; for the others, one of each kind.
    if role != "api":
        combinations = [
            ("none", "tls", False),
            ("strong", "none", False),
            ("strong", "tls", False),
            ("none", "none", True),
        ]
    for token, protection, insecure in combinations:
        environment = {"ROTA_TOKEN": TOKENS[token], **PROTECTIONS.get(protection, {})}
        if insecure:
            environment["ROTA_INSECURE"] = "yes"
        process = subprocess.Popen(
            ["unshare", "--user", "--net", "--map-root-user", sys.executable, "-m", "rota", *ROLES[role]],
            cwd=secured.folder,
            env=secured.environment | environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        expected = insecure or (token == "strong" and protection != "none")  # noqa: S105 - a word
        try:
            assert _starts(process, 8080) == expected, (token, protection, insecure)
        finally:
            process.kill()
            _, said = process.communicate()
        if not expected:
            assert process.returncode == 2, said
            assert b"can be reached from other machines" in said


def test_an_insecure_port_is_warned_of(secured: SecuredSystem) -> None:
    required(shutil.which("unshare"), "no unshare to make a network with: install util-linux")
    process = subprocess.Popen(
        ["unshare", "--user", "--net", "--map-root-user", sys.executable, "-m", "rota", *ROLES["api"], "--insecure"],
        cwd=secured.folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("ROTA_")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        lines = itertools.takewhile(lambda line: b"anyone could run jobs here" not in line, process.stderr)
        assert len(list(lines)) < 20
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()

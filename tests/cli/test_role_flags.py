"""Flags of the roles that the process would not use are refused; the same settings in the environment are not."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import pytest

from rota.cli.commands import roles
from rota.cli.exits import Exit
from rota.cli.main import ROLES, main
from rota.cli.tree import build
from rota.runtime.process import works_over_http
from rota.settings import Settings, read

HTTP = "worker --api-url http://127.0.0.1:9"
UNUSED = [
    ("scheduler --host 0.0.0.0", "--host", "--port"),
    ("scheduler --read-only", "--read-only", "--port"),
    ("scheduler --no-ui", "--no-ui", "--port"),
    ("scheduler --queue-size 5", "--queue-size", "--port"),
    ("scheduler --tls-cert x.pem", "--tls-cert", "--port"),
    ("scheduler --insecure", "--insecure", "--port"),
    ("scheduler --token hunter2", "--token", "--port"),
    ("worker --store x.db --api-url http://127.0.0.1:9", "--api-url", "leave --store out"),
    ("worker --store x.db --ca-file x.pem", "--ca-file", "leave --store out"),
    ("worker --store x.db --token hunter2", "--token", "--worker-address"),
    (f"{HTTP} --tls-cert x.pem", "--tls-cert", "--worker-address"),
    (f"{HTTP} --insecure", "--insecure", "--worker-address"),
    (f"{HTTP} --broker redis://127.0.0.1:9", "--broker", "--store"),
    (f"{HTTP} --queue-size 5", "--queue-size", "--store"),
    (f"{HTTP} --start-timeout 5s", "--start-timeout", "--store"),
]


@pytest.mark.parametrize(("typed", "flag", "remedy"), UNUSED)
def test_a_flag_without_effect_is_refused(
    typed: str, flag: str, remedy: str, capsys: pytest.CaptureFixture[str], started: list[str]
) -> None:
    """`rota scheduler --host 0.0.0.0` served nothing there; `rota worker --store x --api-url y` never used the API."""
    assert main(typed.split()) == Exit.USAGE
    said = capsys.readouterr().err
    assert f"rota: {flag} has no effect here" in said
    assert remedy in said
    assert "hunter2" not in said
    assert started == []


@pytest.mark.parametrize(
    "typed",
    [
        "scheduler --port 0 --host 127.0.0.1 --read-only --no-ui --queue-size 5 --insecure --token hunter2",
        "worker --store x.db --token hunter2 --worker-address :0 --insecure",
        f"{HTTP} --token hunter2 --worker-address :0",
        "api --queue-size 5 --host 127.0.0.1",
    ],
)
def test_a_flag_with_an_effect_is_taken(typed: str, started: list[str]) -> None:
    assert main(typed.split()) == Exit.OK
    assert started == [typed.split(maxsplit=1)[0]]


#: A value for each flag of the roles that is not its default.
VALUES = {
    "store": "x.db", "namespace": "acme", "broker": "redis://127.0.0.1:9", "coordinator": "local", "host": "127.0.0.2",
    "port": "9", "tls_cert": "x.pem", "tls_key": "x.key", "tls_client_ca": "ca.pem", "behind_proxy": "10.0.0.0/8",
    "proxy_user_header": "X-User", "app": "", "worker_id": "ada", "worker_address": ":9", "queues": "mail:2",
    "concurrency": "3", "lease": "33s", "poll_interval": "7s", "start_timeout": "9s", "drain_timeout": "9s",
    "queue_size": "5", "fail_rate": "0.5", "log_level": "error", "log_format": "json", "api_url": "http://127.0.0.1:9",
    "ca_file": "ca.pem", "client_cert": "x.pem", "client_key": "x.key", "token": "hush",
}  # fmt: skip
COMPANIONS = {"tls_key": ["--tls-cert", "x.pem"], "tls_client_ca": ["--tls-cert", "x.pem"],
              "client_key": ["--client-cert", "x.pem"]}  # fmt: skip
_SWITCHES = {"insecure": True, "read_only": True, "ui": False}
FLAGS = [
    (role, flag, action.dest)
    for role, parser in next(
        one for one in build()._actions if isinstance(one, argparse._SubParsersAction)
    ).choices.items()
    if role in ROLES
    for action in parser._actions
    for flag in action.option_strings
    if action.dest not in {"help", "verbose"}
]


@pytest.mark.parametrize(("role", "flag", "name"), FLAGS)
def test_every_flag_of_a_role_sets_the_setting_of_its_name(
    role: str, flag: str, name: str, taken: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the setting does is tested with the settings; here each flag of the tree comes to it."""
    monkeypatch.setattr(roles, "_refuse_unused_flags", lambda *_: None)
    value = [] if name in _SWITCHES else [VALUES[name]]
    assert main([role, flag, *value, *COMPANIONS.get(name, [])]) == Exit.OK
    expected = read(
        {name: _SWITCHES[name] if name in _SWITCHES else VALUES[name]},
        {"ROTA_TLS_CERT": "x.pem", "ROTA_CLIENT_CERT": "x.pem"},
    )
    assert getattr(taken[0], name) == getattr(expected, name)
    assert taken[0].origin(name).startswith("--")
    if name != "app":
        assert getattr(taken[0], name) != getattr(Settings(), name)


def test_a_variable_may_serve_several_processes(started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOST", "QUEUE_SIZE", "BROKER", "CA_FILE"):
        monkeypatch.setenv(f"ROTA_{name}", "5" if name == "QUEUE_SIZE" else "")
    assert main(["scheduler"]) == Exit.OK
    assert main(["worker"]) == Exit.OK
    assert started == ["scheduler", "worker"]


@pytest.mark.parametrize(
    ("flags", "environment", "expected"),
    [
        ({}, {}, True),
        ({}, {"ROTA_STORE": "x.db"}, False),
        ({"api_url": "http://a"}, {"ROTA_STORE": "x.db"}, True),
        ({"store": "x.db"}, {"ROTA_API_URL": "http://a"}, False),
        ({}, {"ROTA_STORE": "x.db", "ROTA_API_URL": "http://a"}, False),
    ],
)
def test_a_worker_uses_what_a_flag_names_before_what_the_environment_names(
    flags: dict[str, str], environment: dict[str, str], *, expected: bool
) -> None:
    """With `ROTA_STORE` set, `rota worker --api-url …` used the store and never said so."""
    assert works_over_http("worker", read(flags, environment)) is expected


def test_a_mistyped_variable_is_in_the_log(
    started: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ROTA_CONCURENCY", "4")
    with caplog.at_level(logging.WARNING):
        assert main(["standalone"]) == Exit.OK
    assert "did you mean ROTA_CONCURRENCY?" in caplog.text
    assert started == ["standalone"]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Settings]:
    """Note the settings with which a role would run; nothing is started."""
    seen: list[Settings] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(roles, "set_up_logs", lambda _: None)
    monkeypatch.setattr(roles, "run_role", lambda _, settings, __: seen.append(settings))
    return seen


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Note the roles that would run; nothing is started."""
    seen: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(roles, "set_up_logs", lambda _: None)
    monkeypatch.setattr(roles, "run_role", lambda role, *_: seen.append(role))
    return seen

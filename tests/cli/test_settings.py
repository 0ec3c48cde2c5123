"""Settings: which source wins, what is refused, and what is said about it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from rota.cli.settings_warnings import unknown_variables, warnings_about
from rota.settings import OPTIONS, InvalidSetting, Settings, read, shown


def test_flags_win_over_the_environment_over_the_file_over_the_default(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.rota]\nport = 1\nconcurrency = 4\nlease = 20\n", encoding="utf-8")
    (tmp_path / "rota.toml").write_text("", encoding="utf-8")
    settings = read({"port": "3"}, {"ROTA_PORT": "2", "ROTA_CONCURRENCY": "5"}, tmp_path)
    assert (settings.port, settings.concurrency, settings.lease) == (3, 5, timedelta(seconds=20))
    assert [settings.origin(name) for name in ("port", "concurrency", "lease", "host")] == [
        "--port",
        "ROTA_CONCURRENCY",
        "pyproject.toml",
        "default",
    ]


OLDER = [
    ("DB_DSN", "jobs.db", "store", "jobs.db"),
    ("POSTGRES_DSN", "postgres://u@h/d", "store", "postgres://u@h/d"),
    ("PORT", "8086", "port", 8086),
    ("HTTP_ADDR", ":8081", "port", 8081),
    ("WORKER_ID", "worker-1", "worker_id", "worker-1"),
    ("POLL_INTERVAL_MS", "5000", "poll_interval", timedelta(seconds=5)),
    ("LEASE_SECONDS", "30", "lease", timedelta(seconds=30)),
    ("WORKER_POOL_SIZE", "7", "concurrency", 7),
    ("JOB_QUEUE_SIZE", "100", "queue_size", 100),
    ("BACKOFF_BASE_MS", "1500", "backoff_base", timedelta(milliseconds=1500)),
    ("BACKOFF_MAX_MS", "60000", "backoff_max", timedelta(seconds=60)),
    ("BACKOFF_JITTER", "0.2", "backoff_jitter", 0.2),
    ("FAIL_RATE", "0.5", "fail_rate", 0.5),
    ("WORKER_HTTP_ADDR", ":9091", "worker_address", ":9091"),
    ("REDIS_URL", "localhost:6379", "broker", "localhost:6379"),
    ("ETCD_ENDPOINTS", "localhost:2379", "coordinator", "localhost:2379"),
    ("REDIS_STREAM_NAME", "stream", "redis_stream", "stream"),
    ("REDIS_GROUP_NAME", "group", "redis_group", "group"),
    ("LOG_LEVEL", "DEBUG", "log_level", "DEBUG"),
    ("LOG_FORMAT", "JSON", "log_format", "JSON"),
]


@pytest.mark.parametrize(("variable", "value", "name", "meant"), OLDER)
def test_older_names_are_understood(variable: str, value: str, name: str, meant: object) -> None:
    settings = read(environment={variable: value})
    assert getattr(settings, name) == meant
    assert settings.origin(name) == variable


def test_two_names_that_disagree_are_refused_by_both_names_and_two_that_agree_are_not() -> None:
    with pytest.raises(InvalidSetting, match="ROTA_PORT and PORT"):
        read(environment={"ROTA_PORT": "1", "PORT": "2"})
    assert read(environment={"ROTA_PORT": "2", "PORT": "2"}).port == 2


REFUSED = [
    ({"ROTA_QUEUES": "mail:0"}, "between 1 and"),
    ({"ROTA_QUEUES": "mail,mail:2"}, "named once"),
    ({"ROTA_QUEUES": " , "}, "at least one queue"),
    ({"ROTA_PORT": "many"}, "ROTA_PORT"),
    ({"ROTA_PORT": "70000"}, "65535"),
    ({"ROTA_CONCURRENCY": "0"}, "1 or more"),
    ({"LEASE_SECONDS": "0.1"}, "a second or more"),
    ({"FAIL_RATE": "2"}, "between 0 and 1"),
    ({"ROTA_LOG_LEVEL": "loud"}, "debug, info"),
    ({"ROTA_API_URL": "localhost"}, "http://"),
    ({"ROTA_INSECURE": "perhaps"}, "yes or no"),
    ({"ROTA_PORT": "tcp://10.0.0.1:8080"}, "enableServiceLinks"),
    ({"ROTA_LEASE": "soon"}, r"ROTA_LEASE: 'soon' is not usable for 'lease': 'soon' is not a duration"),
]


@pytest.mark.parametrize(("environment", "words"), REFUSED)
def test_what_cannot_be_used_is_refused_with_its_name(environment: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidSetting, match=words):
        read(environment=environment)


def test_a_file_with_an_unknown_setting_or_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rota.toml"
    path.write_text("colour = 1\n", encoding="utf-8")
    with pytest.raises(InvalidSetting, match="colour"):
        read(folder=tmp_path)
    path.write_text("= = =", encoding="utf-8")
    with pytest.raises(InvalidSetting, match="cannot be read"):
        read(folder=tmp_path)


def test_every_setting_can_be_read_and_is_shown_and_secrets_are_not() -> None:
    settings = read(environment={"ROTA_TOKEN": "hush"})
    rows = {name: (value, origin) for name, value, origin in shown(settings)}
    assert set(rows) == set(OPTIONS)
    assert rows["token"] == ("***", "ROTA_TOKEN")
    assert Settings().origins == {}


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("mysql://root:s3cret@db:3306/rota", "mysql://root:***@db:3306/rota"),
        (
            "root:s3cret@tcp(127.0.0.1:3310)/scheduler?parseTime=true",
            "root:***@tcp(127.0.0.1:3310)/scheduler?parseTime=true",
        ),
        ("mysql://root:a:b@c/d@db/rota", "mysql://root:***@db/rota"),
        ("mysql://root@db/rota", "mysql://root@db/rota"),
        ("rota.db", "rota.db"),
        ("sqlite:////var/lib/rota.db", "sqlite:////var/lib/rota.db"),
    ],
)
def test_the_password_of_a_store_is_never_shown(url: str, seen: str) -> None:
    settings = read(environment={"DB_DSN": url})
    assert settings.store == url
    assert ("store", seen, "DB_DSN") in shown(settings)


def test_the_password_of_a_coordinator_is_never_shown() -> None:
    settings = read(environment={"ETCD_ENDPOINTS": "etcd://root:s3cret@a:2379,b:2379/rota"})
    assert ("coordinator", "etcd://root:***@a:2379,b:2379/rota", "ETCD_ENDPOINTS") in shown(settings)


def test_the_password_of_an_api_is_never_shown() -> None:
    settings = read(environment={"ROTA_API_URL": "http://user:s3cret@a:8080,http://b:8080"})
    assert ("api_url", "http://user:***@a:8080,http://b:8080", "ROTA_API_URL") in shown(settings)


def test_the_repr_of_the_settings_shows_no_secret() -> None:
    settings = read(
        environment={
            "ROTA_TOKEN": "s3cret-token",
            "ROTA_STORE": "postgresql://rota:s3cret@db/rota",
            "REDIS_URL": "redis://:s3cret@cache:6379",
        }
    )
    for text in (repr(settings), str(settings), f"{settings!r:.5000}"):
        assert "s3cret" not in text
        assert "store='postgresql://rota:***@db/rota' (ROTA_STORE)" in text
        assert "token='***' (ROTA_TOKEN)" in text


@pytest.mark.parametrize("token", ["s3cret\nX: y", "s3cret ", "s3crét"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(InvalidSetting, match="no space or line break") as refusal:
        read(environment={"ROTA_TOKEN": token})
    assert "s3cr" not in str(refusal.value)


def test_a_variable_that_is_no_setting_is_named_with_the_one_that_was_meant() -> None:
    """`ROTA_CONCURENCY=4` was ignored without a warning."""
    environment = {"ROTA_CONCURENCY": "4", "ROTA_MINE": "1", "ROTA_CONCURRENCY": "5", "HOME": "/"}
    kubernetes = ("ROTA_API_SERVICE_HOST", "ROTA_API_SERVICE_PORT_HTTP", "ROTA_API_PORT", "ROTA_API_PORT_80_TCP_ADDR")
    mistyped, other = unknown_variables({**environment, **dict.fromkeys(kubernetes, "tcp://10.0.0.1:80")})
    assert mistyped.endswith("ROTA_CONCURENCY is no setting and has no effect; did you mean ROTA_CONCURRENCY?")
    assert "ROTA_MINE is no setting" in other


@pytest.mark.parametrize(
    ("name", "value"),
    [("token", "0123456789abcdef"), ("store", "postgresql://ada:hush@db/rota"), ("encryption_keys", "k1=" + "A" * 44)],
)
def test_a_secret_that_others_can_read_is_warned_of_and_not_shown(tmp_path: Path, name: str, value: str) -> None:
    file = tmp_path / "rota.toml"
    file.write_text(f'{name} = "{value}"\n', encoding="utf-8")
    file.chmod(0o644)
    (warning,) = warnings_about(read(folder=tmp_path), {}, tmp_path)
    assert f"rota.toml: every user of this machine can read the secret in '{name}'; chmod 600 it" == warning
    file.chmod(0o600)
    assert warnings_about(read(folder=tmp_path), {}, tmp_path) == []
    file.unlink()
    (warning,) = warnings_about(read({name: value}), {}, tmp_path)
    assert warning.startswith(f"--{name.replace('_', '-')}: every user of this machine can see")
    assert value not in warning
    assert warnings_about(read(environment={f"ROTA_{name.upper()}": value}), {}, tmp_path) == []


def test_what_is_no_secret_may_be_read_by_all(tmp_path: Path) -> None:
    (tmp_path / "rota.toml").write_text('store = "rota.db"\nport = 1\n', encoding="utf-8")
    flags = {"host": "127.0.0.1", "encryption_keys": "file:/etc/rota/keys"}
    assert warnings_about(read(flags, folder=tmp_path), {}, tmp_path) == []


@pytest.mark.parametrize(
    "content",
    ["[queues]\na = 1", "queues = [['a']]", "store = ['a.db']", "host = true", "log_level = {}", "app = ['tasks:app']"],
)
def test_a_value_of_another_kind_in_a_file_is_refused(tmp_path: Path, content: str) -> None:
    """`[queues]` became a queue named `{'a': 1}`."""
    (tmp_path / "rota.toml").write_text(content, encoding="utf-8")
    with pytest.raises(InvalidSetting, match="a text is needed"):
        read(folder=tmp_path)


def test_settings_that_are_no_table_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\nrota = 5\n", encoding="utf-8")
    with pytest.raises(InvalidSetting, match=r"\[tool.rota\] is not a table"):
        read(folder=tmp_path)

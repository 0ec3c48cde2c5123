"""Settings: one frozen object, read once, each value with its origin.

Flag over environment over file (`rota.toml`, or `[tool.rota]` in `pyproject.toml`) over default. Every setting has a
`ROTA_` variable; names of older systems are accepted too. Two names of one setting with different values are refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from rota.core.duration import format_duration, parse_duration
from rota.core.errors import InvalidRequest
from rota.core.namespace import DEFAULT, check_name
from rota.core.redaction import SECRET_KEYS, redacted
from rota.core.retry import Backoff, shared
from rota.tls import ClientFiles

Parser = Callable[[Any], Any]
MOST_SLOTS: Final = 10_000


class InvalidSetting(InvalidRequest):
    """An invalid setting; the message names the setting, the value and its origin."""


def text(value: Any) -> str:  # noqa: ANN401 - any value of a file or the environment
    """Read a text; a number of a file is one, a list or a table is not."""
    if isinstance(value, list | dict | bool):
        raise TypeError("a text is needed")
    return str(value)


def whole(value: Any) -> int:  # noqa: ANN401
    """Read a whole number."""
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError("a whole number is needed")
    return int(value)


def share(value: Any) -> float:  # noqa: ANN401
    """Read a share between 0 and 1."""
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError("a number between 0 and 1 is needed")
    return number


def yes_or_no(value: Any) -> bool:  # noqa: ANN401
    """Read a boolean."""
    word = str(value).strip().lower()
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"0", "false", "no", "off", ""}:
        return False
    raise ValueError("yes or no is needed")


def span(value: Any) -> timedelta:  # noqa: ANN401
    """Read a duration; a bare number counts seconds."""
    return parse_duration(value)


def forever_or_span(value: Any) -> timedelta | None:  # noqa: ANN401
    """Read a duration, or `never`."""
    return None if str(value).strip().lower() in {"never", "forever"} else parse_duration(value)


def milliseconds(value: Any) -> timedelta:  # noqa: ANN401
    """Read a number of milliseconds: the unit of older settings such as `BACKOFF_BASE_MS`."""
    return timedelta(milliseconds=float(value))


def mode(value: Any) -> int:  # noqa: ANN401
    """Read the mode of a file, in octal as `chmod` takes it."""
    bits = int(str(value), 8)
    if not 0 <= bits <= 0o777:  # noqa: PLR2004 - the bits there are
        raise ValueError("an octal number such as 640 is needed")
    return bits


def namespace_name(value: Any) -> str:  # noqa: ANN401
    """Read the name of a namespace; empty or `default` for the default one."""
    name = str(value).strip()
    return "" if name in {"", DEFAULT} else check_name(name, field="namespace")


def words(value: Any) -> tuple[str, ...]:  # noqa: ANN401
    """Read a list, of a file or separated by commas."""
    parts = value if isinstance(value, list | tuple) else text(value).split(",")
    return tuple(text(part).strip() for part in parts if text(part).strip())


def networks(value: Any) -> tuple[str, ...]:  # noqa: ANN401
    """Read a list of IP addresses and networks such as `10.0.0.0/8`."""
    parts = words(value)
    for part in parts:
        ip_network(part, strict=False)
    return parts


def queue_words(value: Any) -> tuple[str, ...]:  # noqa: ANN401
    """Read a list of queues, each with or without the slots it may take: `mail,reports:2`."""
    parts = words(value)
    names = [slots_of(part)[0] for part in parts]
    if not names:
        raise ValueError("at least one queue is needed")
    if len(set(names)) < len(names):
        raise ValueError("each queue may be named once")
    return parts


def slots_of(part: str) -> tuple[str, int | None]:
    """Read a queue and how many of its jobs a worker runs at once, as in `reports:2`; None for as many as there are."""
    name, _, number = part.rpartition(":")
    if not name or not number.isdecimal():
        return part, None
    if not 1 <= int(number) <= MOST_SLOTS:
        raise ValueError(f"{part!r} must leave the queue between 1 and {MOST_SLOTS} slots")
    return name, int(number)


def port_of(value: Any) -> int:  # noqa: ANN401
    """Read a port, also the port of an address such as `:8080`."""
    if str(value).startswith("tcp://"):
        raise ValueError(
            "a port is needed; Kubernetes sets this variable for a Service of that name: set"
            " `enableServiceLinks: false` in the pod"
        )
    number = whole(str(value).rpartition(":")[2])
    if not 0 <= number <= 65535:  # noqa: PLR2004 - the ports there are
        raise ValueError("a port lies between 0 and 65535")
    return number


def host_of(value: Any) -> str:  # noqa: ANN401
    """Read the host of an address; one without a host, such as `:8080`, means this host."""
    return str(value).rpartition(":")[0].strip("[]") or "127.0.0.1"


def address(value: Any) -> str:  # noqa: ANN401
    """Read an address to listen on, such as `:9090` or `0.0.0.0:9090`, or nothing."""
    if str(value).strip():
        port_of(value)
    return str(value).strip()


@dataclass(frozen=True, slots=True)
class Option:
    """One setting: its parser, its help, and its older names."""

    parse: Parser
    help: str
    older: Mapping[str, Parser] = field(default_factory=dict)
    is_secret: bool = False


OPTIONS: Final[Mapping[str, Option]] = {
    "store": Option(
        text,
        "where jobs are kept: a file or a database URL",
        {"DB_DSN": text, "POSTGRES_DSN": text},
    ),
    "namespace": Option(
        namespace_name, "the namespace that a process, a client or a command works in; empty for the default one"
    ),
    "broker": Option(text, "the broker that notifies workers: empty for the store itself", {"REDIS_URL": text}),
    "coordinator": Option(
        text,
        "the coordinator that elects the leader among schedulers: etcd://host:2379, local, or empty for the store",
        {"ETCD_ENDPOINTS": text},
    ),
    "host": Option(text, "the address the API listens on", {"HTTP_ADDR": host_of}),
    "port": Option(port_of, "the port the API listens on", {"PORT": port_of, "HTTP_ADDR": port_of}),
    "token": Option(text, "the bearer token that every request must send; empty for none", is_secret=True),
    "tls_cert": Option(text, "the file with the TLS certificate and its chain (PEM) of all ports that listen"),
    "tls_key": Option(text, "the file with its key (PEM); empty if the key is in the same file"),
    "tls_client_ca": Option(
        text, "the authority (PEM) that must have signed the certificates of clients; empty to require none"
    ),
    "behind_proxy": Option(
        networks,
        "the addresses or networks of proxies that do TLS: X-Forwarded-For, -Proto and -Host are taken from them",
    ),
    "proxy_user_header": Option(
        text, "the header in which these proxies name the user who has logged in there, such as X-Forwarded-User"
    ),
    "insecure": Option(yes_or_no, "listen beyond this host without a token, or without TLS; warns every minute"),
    "encryption_keys": Option(
        text,
        "the keys that clients and workers encrypt jobs with: name=base64,… or file:PATH or python:module:name;"
        " the first one encrypts, all decrypt; empty for no encryption",
        is_secret=True,
    ),
    "redact_keys": Option(
        words,
        "keys in payloads and results whose values are shown only to tokens with the action secrets.read; a star stands"
        " for any characters",
    ),
    "read_only": Option(yes_or_no, "refuse every request that would change something, with 403"),
    "ui": Option(yes_or_no, "serve the dashboard at /ui"),
    "api_url": Option(words, "where the API is, for workers and clients; several for failover"),
    "ca_file": Option(text, "the authority (PEM) of the API's certificate; empty for the public ones"),
    "client_cert": Option(text, "the certificate (PEM) that workers and clients present to the API"),
    "client_key": Option(text, "the file with its key (PEM); empty if the key is in the same file"),
    "app": Option(text, "the Python app whose tasks to run, as module:name"),
    "worker_id": Option(text, "the worker's name; empty for host and pid", {"WORKER_ID": text}),
    "worker_address": Option(
        address,
        "where a worker shows its health and metrics, such as :9090; empty for nowhere",
        {"WORKER_HTTP_ADDR": address},
    ),
    "queues": Option(
        queue_words,
        "the queues a worker takes jobs from, as in mail,reports:2 where at most 2 jobs of reports run at once;"
        " unset, default and the queues of the app's tasks",
    ),
    "concurrency": Option(whole, "how many jobs a worker runs at once", {"WORKER_POOL_SIZE": whole}),
    "lease": Option(span, "how long a worker keeps a job without a heartbeat", {"LEASE_SECONDS": span}),
    "poll_interval": Option(
        span,
        "how long a worker waits for a notification before it looks for jobs itself",
        {"POLL_INTERVAL_MS": milliseconds},
    ),
    "hand_over": Option(
        yes_or_no,
        "whether a new job is handed directly to a waiting worker (SQLite, PostgreSQL), which saves it a claim",
    ),
    "start_timeout": Option(span, "how long a process waits at its start for a database that is away"),
    "drain_timeout": Option(span, "how long running jobs may finish at shutdown"),
    "queue_size": Option(whole, "how many jobs may wait in a queue; 0 for no bound", {"JOB_QUEUE_SIZE": whole}),
    "fail_rate": Option(share, "the share of attempts to fail at random, for testing", {"FAIL_RATE": share}),
    "max_attempts": Option(whole, "how often a job is tried unless it says otherwise"),
    "backoff_base": Option(span, "the delay after the first failure", {"BACKOFF_BASE_MS": milliseconds}),
    "backoff_max": Option(span, "the longest delay after a failure", {"BACKOFF_MAX_MS": milliseconds}),
    "backoff_jitter": Option(share, "by which share a delay may be off", {"BACKOFF_JITTER": share}),
    "keep_completed": Option(forever_or_span, "how long completed and cancelled jobs are kept, or never"),
    "keep_dead": Option(forever_or_span, "how long dead jobs are kept, or never"),
    "file_root": Option(text, "the folder that file jobs may touch; empty switches them off"),
    "file_quota": Option(whole, "how many bytes the files of file jobs may have together"),
    "file_mode": Option(mode, "the mode of files that file jobs make, in octal, such as 640"),
    "builtin_timeout": Option(
        forever_or_span, "how long a job of a built-in type may run unless it says otherwise, or never"
    ),
    "allow_hosts": Option(words, "internal hosts and networks that http jobs may reach"),
    "redis_stream": Option(text, "what the names of our Redis streams begin with", {"REDIS_STREAM_NAME": text}),
    "redis_group": Option(text, "the name of the Redis consumer group", {"REDIS_GROUP_NAME": text}),
    "capture_logs": Option(yes_or_no, "keep the log records that handlers make with their jobs"),
    "log_level": Option(text, "which log lines to write", {"LOG_LEVEL": text}),
    "log_format": Option(text, "how to write them: text or json", {"LOG_FORMAT": text}),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, with their defaults."""

    store: str = "rota.db"
    namespace: str = ""
    broker: str = ""
    coordinator: str = ""
    host: str = "127.0.0.1"
    port: int = 8080
    token: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    behind_proxy: tuple[str, ...] = ()
    proxy_user_header: str = ""
    encryption_keys: str = ""
    insecure: bool = False
    redact_keys: tuple[str, ...] = SECRET_KEYS
    read_only: bool = False
    ui: bool = True
    api_url: tuple[str, ...] = ("http://127.0.0.1:8080",)
    ca_file: str = ""
    client_cert: str = ""
    client_key: str = ""
    app: str = ""
    worker_id: str = ""
    worker_address: str = ""
    queues: tuple[str, ...] = ("default",)
    concurrency: int = 10
    lease: timedelta = timedelta(seconds=15)
    poll_interval: timedelta = timedelta(seconds=20)
    hand_over: bool = True
    start_timeout: timedelta = timedelta(seconds=60)
    drain_timeout: timedelta = timedelta(seconds=30)
    queue_size: int = 0
    fail_rate: float = 0.0
    max_attempts: int = 3
    backoff_base: timedelta = timedelta(seconds=1)
    backoff_max: timedelta = timedelta(seconds=60)
    backoff_jitter: float = 0.1
    keep_completed: timedelta | None = timedelta(hours=24)
    keep_dead: timedelta | None = timedelta(days=30)
    file_root: str = ""
    file_quota: int = 1_000_000_000
    file_mode: int = 0o640
    builtin_timeout: timedelta | None = timedelta(hours=1)
    allow_hosts: tuple[str, ...] = ()
    redis_stream: str = "jobs"
    redis_group: str = "workers"
    capture_logs: bool = True
    log_level: str = "info"
    log_format: str = "text"
    #: Where each value that is not a default came from.
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def backoff(self) -> Backoff:
        """The backoff of jobs that do not set their own."""
        return shared(Backoff(base=self.backoff_base, cap=self.backoff_max, jitter=self.backoff_jitter))

    @property
    def client_tls(self) -> ClientFiles:
        """The files for TLS to the API."""
        return ClientFiles(self.ca_file, self.client_cert, self.client_key)

    def __repr__(self) -> str:
        # Redacted: a log line or a traceback must not show a token or a password.
        rows = (f"{name}={value!r} ({origin})" for name, value, origin in shown(self))
        return f"Settings({', '.join(rows)})"

    def origin(self, name: str) -> str:
        """Return the origin of a setting's value."""
        return self.origins.get(name, "default")


@dataclass(frozen=True, slots=True)
class Finding:
    """A value of a setting in one source."""

    name: str
    value: Any
    origin: str


def read(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Read the settings of all sources; flags win over environment over files."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source in (_in_files(folder), _in_environment(environment or {}), _in_flags(flags or {})):
        for finding in _agreed(source):
            values[finding.name], origins[finding.name] = finding.value, finding.origin
    settings = Settings(**values, origins=origins)
    _check(settings)
    return settings


def _in_flags(flags: Mapping[str, Any]) -> Iterator[Finding]:
    for name, value in flags.items():
        if value is not None:
            yield _parsed(name, OPTIONS[name].parse, value, f"--{name.replace('_', '-')}")


def _in_environment(environment: Mapping[str, str]) -> Iterator[Finding]:
    for name, option in OPTIONS.items():
        for variable, parse in {f"ROTA_{name.upper()}": option.parse, **option.older}.items():
            if environment.get(variable):
                yield _parsed(name, parse, environment[variable], variable)


def _in_files(folder: Path | None) -> Iterator[Finding]:
    if folder is None:
        return
    for path, table in ((folder / "pyproject.toml", ("tool", "rota")), (folder / "rota.toml", ())):
        for name, value in _table(path, table).items():
            if name not in OPTIONS:
                raise InvalidSetting(f"{path.name}: {name!r} is no setting; `rota config show` lists them", field=name)
            yield _parsed(name, OPTIONS[name].parse, value, path.name)


def _table(path: Path, names: tuple[str, ...]) -> Mapping[str, Any]:
    try:
        table: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{path.name} cannot be read: {error}") from None
    for name in names:
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise InvalidSetting(f"{path.name}: [{'.'.join(names)}] is not a table of settings", field=name)
    return dict(table)


def _parsed(name: str, parse: Parser, value: Any, origin: str) -> Finding:  # noqa: ANN401
    try:
        return Finding(name, parse(value), origin)
    except (ValueError, TypeError, OverflowError) as error:
        shown = "***" if OPTIONS[name].is_secret else redacted(repr(value))
        # An error of ours names a field, which is named here already.
        field_name = error.field if isinstance(error, InvalidRequest) else None
        why = str(error).removeprefix(f"{field_name}: ")
        raise InvalidSetting(f"{origin}: {shown} is not usable for {name!r}: {why}", field=name) from None


def _agreed(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Refuse two names of one source with different values for one setting."""
    seen: dict[str, Finding] = {}
    for finding in findings:
        other = seen.setdefault(finding.name, finding)
        if other.value != finding.value:
            raise InvalidSetting(
                f"{other.origin} and {finding.origin} both set {finding.name!r}, to different values; remove one",
                field=finding.name,
            )
    yield from seen.values()


_LEVELS: Final = ("debug", "info", "warning", "error")


def _check(settings: Settings) -> None:
    for name in ("concurrency", "max_attempts"):
        if getattr(settings, name) < 1:
            _refuse(settings, name, "it must be 1 or more")
    if settings.poll_interval <= timedelta(0):
        _refuse(settings, "poll_interval", "it must be longer than nothing")
    if settings.queue_size < 0:
        _refuse(settings, "queue_size", "it must be 0 or more")
    if settings.lease < timedelta(seconds=1):
        _refuse(settings, "lease", "it must be a second or more, or no heartbeat comes in time")
    _check_texts(settings)


def _check_texts(settings: Settings) -> None:
    if settings.log_level.lower() not in _LEVELS:
        _refuse(settings, "log_level", f"it must be one of {', '.join(_LEVELS)}")
    if settings.log_format.lower() not in {"text", "json"}:
        _refuse(settings, "log_format", "it must be text or json")
    if not all("!" <= character <= "~" for character in settings.token):
        _refuse(settings, "token", "it may have ASCII letters, digits and signs only, and no space or line break")
    for name, needed in (("tls_key", "tls_cert"), ("tls_client_ca", "tls_cert"), ("client_key", "client_cert")):
        if getattr(settings, name) and not getattr(settings, needed):
            _refuse(settings, name, f"it has no effect without {needed!r}")
    for url in settings.api_url:
        if not url.startswith(("http://", "https://")):
            _refuse(settings, "api_url", "it must begin with http:// or https://")


def _refuse(settings: Settings, name: str, why: str) -> None:
    value = "***" if OPTIONS[name].is_secret else redacted(repr(getattr(settings, name)))
    raise InvalidSetting(f"{settings.origin(name)}: {value} is not usable for {name!r}: {why}", field=name)


def shown(settings: Settings) -> list[tuple[str, str, str]]:
    """Return every setting with its value as text and its origin. Secrets are hidden."""
    rows = []
    for one in fields(Settings):
        if one.name == "origins":
            continue
        value = getattr(settings, one.name)
        match value:
            case _ if OPTIONS[one.name].is_secret and value:
                words_ = "***"
            case str():
                words_ = redacted(value)
            case timedelta():
                words_ = format_duration(value)
            case None:
                words_ = "never"
            case int() if one.name == "file_mode":
                words_ = f"{value:o}"
            case tuple():
                words_ = redacted(",".join(value))
            case _:
                words_ = str(value)
        rows.append((one.name, words_, settings.origin(one.name)))
    return rows

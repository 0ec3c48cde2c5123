"""Settings of the API: keys and their actions, limits, and what it shows about this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from rota.core.access import ALL_ACTIONS, ROLES, Action, Token, TokenLimits, qualified_id
from rota.core.redaction import SecretKeys
from rota.ports.coordinator import Coordinator
from rota.ports.store import Retention
from rota.wire.submission import Defaults

_IMPLIED: Final = frozenset({Action.PUBLIC, Action.SIGNED_IN})


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The access of one caller. `key_scope` separates its idempotency keys from those of other callers."""

    name: str
    digest: bytes
    actions: frozenset[Action] = ALL_ACTIONS | _IMPLIED
    key_scope: str = ""
    #: Names of queues or patterns such as `mail-*`; without any, all queues.
    queues: tuple[str, ...] = ()
    #: None without any.
    limits: TokenLimits | None = None
    role: str = ""
    #: With the namespace before it.
    token_id: str = ""
    expires_at: datetime | None = None
    #: The namespace that it is bound to; None for the server's own, in which keys of the settings are.
    namespace: str | None = None

    @classmethod
    def of(cls, name: str, token: str, actions: Collection[Action] = ALL_ACTIONS, *, key_scope: str = "") -> ApiKey:
        """Make the key of a secret that is given in the settings."""
        return cls(name, sha256(token.encode()).digest(), frozenset(actions) | _IMPLIED, key_scope, role=_role(actions))

    @classmethod
    def of_token(cls, token: Token, namespace: str = "") -> ApiKey:
        """Make the key of a stored token. Its successor after a rotation has the same name and idempotency keys."""
        return cls(
            name=token.name,
            digest=token.digest,
            actions=token.granted | _IMPLIED,
            key_scope=f"{'user' if token.is_user else 'token'} {token.name}",
            queues=token.queues,
            limits=token.limits if token.limits.given else None,
            role=token.role,
            token_id=qualified_id(namespace, token.id),
            expires_at=token.expires_at,
            namespace=namespace,
        )


def _role(actions: Collection[Action]) -> str:
    return next((name for name, granted in ROLES.items() if granted == frozenset(actions)), "")


#: Where graphs are submitted.
GRAPH_PATH: Final = "/v1/workflows"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on requests and connections."""

    body_bytes: int = 1_048_576
    depth: int = 64
    keys: int = 10_000
    #: Arrays and objects in one body; a megabyte with more consists of little else.
    containers: int = 250_000
    #: The same for a workflow, which may have 10,000 nodes.
    graph_bytes: int = 8_388_608
    graph_keys: int = 300_000
    header_bytes: int = 16_384
    header_count: int = 100
    url_bytes: int = 8_192
    page: int = 500
    batch: int = 1_000
    #: The longest wait of a long poll.
    longest_wait: timedelta = timedelta(seconds=60)
    #: Requests under way at once, waiting ones included, before more are answered 429.
    in_flight: int = 10_000
    streams: int = 500
    streams_per_caller: int = 100
    #: Requests of one connection that may wait for the response to an earlier one.
    pipelined: int = 32
    #: Bytes of unanswered requests, and of unread responses, that all connections of a process may hold together.
    incoming_bytes: int = 134_217_728
    outgoing_bytes: int = 134_217_728

    def body_bytes_at(self, path: str) -> int:
        """Return the largest body of a request to a path; a workflow may be larger than other requests."""
        return self.graph_bytes if path.endswith(GRAPH_PATH) else self.body_bytes


def _not_leader() -> bool:
    return False


def _healthy() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Settings of one API."""

    #: Empty for the default one.
    namespace: str = ""
    #: Without keys every caller has full access; bind to loopback then.
    keys: tuple[ApiKey, ...] = ()
    limits: Limits = field(default_factory=Limits)
    instance_id: str = "rota"
    version: str = ""
    store_name: str = "sqlite"
    is_leader: Callable[[], bool] = _not_leader
    current_leader: Callable[[], str | None] | None = None
    coordinator_is_healthy: Callable[[], bool] = _healthy
    #: Whether the last write of this process succeeded: a heartbeat, or a bid for leadership.
    store_is_writable: Callable[[], bool] = _healthy
    #: Without a coordinator, `/v1/cluster` is not found.
    coordinator: Coordinator | None = None
    #: Checks the payload of a built-in type; raises `InvalidRequest` if it is wrong.
    payload_checks: Mapping[str, Callable[[object], None]] = field(default_factory=dict)
    defaults: Defaults = field(default_factory=Defaults)
    #: Types that a worker in this process handles; a submission with another type gets a warning.
    known_types: Callable[[], Collection[str]] | None = None
    #: The lease of `GET /next-job`, whose callers do not renew it.
    next_job_lease: timedelta = timedelta(seconds=60)
    #: Whether requests may name any host. Without keys only names of this machine are accepted, so that no web page can
    #: reach the API through a name of its own (DNS rebinding).
    serves_any_host: bool = False
    #: Addresses and networks of proxies whose `X-Forwarded-*` headers are taken.
    proxies: tuple[str, ...] = ()
    #: The header in which these proxies name the user; empty if they name none.
    user_header: bytes = b""
    #: Whether every request that would change something is refused.
    read_only: bool = False
    #: Keys in payloads and results whose values are shown only to callers with `secrets.read`.
    secret_keys: SecretKeys = field(default_factory=SecretKeys)
    #: Whether other machines can reach the API, which has no keys.
    is_exposed: bool = False
    #: How long the schedulers of this deployment keep finished jobs.
    retention: Retention = field(default_factory=Retention)
    #: Every setting of this process with its value as text, without secrets, and its origin. None in a namespace that
    #: it hosts beside its own, whose callers may know nothing of the deployment.
    effective: Callable[[], list[tuple[str, str, str]]] | None = list
    #: Whether the dashboard is served below `/ui`.
    ui: bool = True

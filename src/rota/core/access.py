"""Access control: the actions a token may grant, roles as sets of actions, and the format of a token's secret.

A secret reads `rota_<id>_<random>_<checksum>`, and `rota_<namespace>_<id>_<random>_<checksum>` in a namespace, whose
tokens are stored there. Secret scanners find it by its prefix, the id names the stored token, and a misspelled secret
is recognised by its checksum, without a query. Only a SHA-256 hash of the secret is stored; since its random part has
160 bits, a slow hash would add nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final

from rota.core.errors import InvalidRequest
from rota.core.value import value

#: Bytes of randomness in a secret and in a token's id.
SECRET_BYTES: Final = 20
ID_BYTES: Final = 5
_SECRET: Final = re.compile(r"(rota_((?:[a-z][a-z0-9-]{0,29}_)?[a-z2-7]{8})_[a-z2-7]{32})_([0-9a-f]{8})", re.ASCII)
#: What the ids of users begin with, which are stored as tokens; no secret has such an id.
USER_PREFIX: Final = "user-"
_LEAST_BITS: Final = 128.0
_LEAST_DISTINCT: Final = 8


class Action(StrEnum):
    """What a request does; every route of the API declares one."""

    #: Needs no token at all.
    PUBLIC = "public"
    #: Needs a valid token, whatever it grants.
    SIGNED_IN = "signed_in"
    JOBS_READ = "jobs.read"
    PAYLOADS_READ = "payloads.read"
    SECRETS_READ = "secrets.read"
    JOBS_SUBMIT = "jobs.submit"
    JOBS_CANCEL = "jobs.cancel"
    JOBS_RETRY = "jobs.retry"
    JOBS_EDIT = "jobs.edit"
    JOBS_OPERATE = "jobs.operate"
    STEPS_RESOLVE = "steps.resolve"
    EVENTS_EMIT = "events.emit"
    DEAD_LETTERS_DISCARD = "dead_letters.discard"
    DEAD_LETTERS_NOTE = "dead_letters.note"
    QUEUES_READ = "queues.read"
    QUEUES_PAUSE = "queues.pause"
    QUEUES_EDIT = "queues.edit"
    SCHEDULES_READ = "schedules.read"
    SCHEDULES_PAUSE = "schedules.pause"
    SCHEDULES_RUN = "schedules.run"
    SCHEDULES_EDIT = "schedules.edit"
    WORK = "work"
    WORKERS_EDIT = "workers.edit"
    SYSTEM_READ = "system.read"
    LEDGER_READ = "ledger.read"
    CLUSTER_EDIT = "cluster.edit"
    TOKENS_READ = "tokens.read"
    TOKENS_EDIT = "tokens.edit"
    WEBHOOKS_READ = "webhooks.read"
    WEBHOOKS_EDIT = "webhooks.edit"
    NAMESPACES_READ = "namespaces.read"
    NAMESPACES_EDIT = "namespaces.edit"
    NAMESPACES_USE = "namespaces.use"


#: Every action that a token can grant, with its description.
DESCRIPTIONS: Final[Mapping[Action, str]] = {
    Action.JOBS_READ: "read jobs, attempts, steps and dead letters; follow the live stream",
    Action.PAYLOADS_READ: "see payloads, results, messages of errors, progress and log lines in what else may be read",
    Action.SECRETS_READ: "see values of secret keys, such as passwords, in payloads and results",
    Action.JOBS_SUBMIT: "submit jobs",
    Action.JOBS_CANCEL: "cancel jobs",
    Action.JOBS_RETRY: "retry jobs and dead letters, start waiting jobs at once",
    Action.JOBS_EDIT: "change waiting jobs; retry or duplicate jobs with another payload, queue, priority or time",
    Action.JOBS_OPERATE: "act on all jobs of a search, with the action for a single job; share saved views",
    Action.STEPS_RESOLVE: "say whether the effect of a step in doubt happened",
    Action.EVENTS_EMIT: "emit events that jobs wait for",
    Action.DEAD_LETTERS_DISCARD: "delete dead letters",
    Action.DEAD_LETTERS_NOTE: "write notes on causes of dead letters",
    Action.QUEUES_READ: "read queues and their counts",
    Action.QUEUES_PAUSE: "pause and resume queues",
    Action.QUEUES_EDIT: "set the limits of queues",
    Action.SCHEDULES_READ: "read schedules and their fire times",
    Action.SCHEDULES_PAUSE: "pause and resume schedules",
    Action.SCHEDULES_RUN: "create jobs of a schedule at once, or for missed fire times",
    Action.SCHEDULES_EDIT: "create, change and delete schedules",
    Action.WORK: "claim jobs, renew and settle them, record their steps and waits, call child jobs, send heartbeats",
    Action.WORKERS_EDIT: "send orders to workers (quiet, resume, stop, show stacks); delete records of stopped ones",
    Action.SYSTEM_READ: "read health, counts, metrics, workers, cluster, and the API's documentation",
    Action.LEDGER_READ: "read the ledger of operator actions",
    Action.CLUSTER_EDIT: "change the shared configuration, transfer the lead, release locks",
    Action.TOKENS_READ: "list tokens, without their secrets",
    Action.TOKENS_EDIT: "create, rotate and revoke tokens that grant no more than one's own",
    Action.WEBHOOKS_READ: "list webhooks, without their secrets, and their deliveries",
    Action.WEBHOOKS_EDIT: "create, rotate, test, enable and remove webhooks",
    Action.NAMESPACES_READ: "list namespaces and their limits",
    Action.NAMESPACES_EDIT: "create and delete namespaces, and set their limits",
    Action.NAMESPACES_USE: "use the actions of this token in every namespace",
}
ALL_ACTIONS: Final = frozenset(DESCRIPTIONS)
#: Actions on jobs, queues and schedules: a token that is limited to queues has them for these queues only.
QUEUE_ACTIONS: Final = frozenset(
    action
    for action in ALL_ACTIONS
    if action is Action.WORK
    or action.startswith(
        ("jobs.", "payloads.", "secrets.", "steps.", "events.", "dead_letters.", "queues.", "schedules.", "webhooks.")
    )
)

#: Actions that change nothing.
READS: Final = frozenset({Action.PUBLIC, Action.SIGNED_IN}) | {one for one in ALL_ACTIONS if one.endswith(".read")}

_VIEWER: Final = frozenset(
    {
        Action.JOBS_READ,
        Action.QUEUES_READ,
        Action.SCHEDULES_READ,
        Action.SYSTEM_READ,
        Action.LEDGER_READ,
        Action.WEBHOOKS_READ,
    }
)
_OPERATOR: Final = frozenset(
    {
        Action.PAYLOADS_READ,
        Action.JOBS_CANCEL,
        Action.JOBS_RETRY,
        Action.JOBS_EDIT,
        Action.JOBS_OPERATE,
        Action.STEPS_RESOLVE,
        Action.EVENTS_EMIT,
        Action.DEAD_LETTERS_DISCARD,
        Action.DEAD_LETTERS_NOTE,
        Action.QUEUES_PAUSE,
        Action.QUEUES_EDIT,
        Action.SCHEDULES_PAUSE,
        Action.SCHEDULES_RUN,
        Action.WORKERS_EDIT,
    }
)
_SUBMITTER: Final = frozenset(
    {
        Action.JOBS_SUBMIT,
        Action.JOBS_READ,
        Action.PAYLOADS_READ,
        Action.SECRETS_READ,
        Action.JOBS_CANCEL,
        Action.EVENTS_EMIT,
        Action.SCHEDULES_READ,
        Action.SCHEDULES_RUN,
        Action.SCHEDULES_EDIT,
    }
)
ROLES: Final[Mapping[str, frozenset[Action]]] = {
    "viewer": _VIEWER,
    "operator": _VIEWER | _OPERATOR,
    "submitter": _SUBMITTER,
    "worker": frozenset({Action.WORK}),
    "admin": ALL_ACTIONS,
}


@value
class TokenLimits:
    """How much one API process accepts of a token's requests; None for no limit."""

    requests_per_second: int | None = None
    streams_per_second: int | None = None
    #: Bytes of the bodies of requests that are not answered yet.
    bytes_in_flight: int | None = None

    @property
    def given(self) -> dict[str, int]:
        """The limits that are set, by name."""
        limits = {
            "requests_per_second": self.requests_per_second,
            "streams_per_second": self.streams_per_second,
            "bytes_in_flight": self.bytes_in_flight,
        }
        return {name: limit for name, limit in limits.items() if limit is not None}


UNLIMITED: Final = TokenLimits()


@value
class Token:
    """An API token, of which only a hash is stored. It grants the actions of its role and the listed ones."""

    id: str
    name: str
    digest: bytes
    created_at: datetime
    role: str = ""
    actions: tuple[str, ...] = ()
    #: Names of queues, or beginnings of names such as `mail-*`; without any, all queues.
    queues: tuple[str, ...] = ()
    limits: TokenLimits = UNLIMITED
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def granted(self) -> frozenset[Action]:
        """All actions it grants; names that this release does not know grant nothing."""
        return ROLES.get(self.role, frozenset()) | {Action(name) for name in self.actions if name in ALL_ACTIONS}

    @property
    def is_user(self) -> bool:
        """Whether a password opens it instead of a secret."""
        return self.id.startswith(USER_PREFIX)

    def is_live(self, now: datetime) -> bool:
        """Return whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@value
class TokenDraft:
    """A token to be created."""

    name: str
    role: str = ""
    actions: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    limits: TokenLimits = UNLIMITED
    expires_at: datetime | None = None


def check_draft(draft: TokenDraft, now: datetime) -> None:
    """Refuse a draft that grants nothing, or names an unknown role or action."""
    if draft.role and draft.role not in ROLES:
        raise InvalidRequest(f"role: {draft.role!r} is unknown; there are {', '.join(ROLES)}", field="role")
    for name in draft.actions:
        if name not in ALL_ACTIONS:
            known = ", ".join(DESCRIPTIONS)
            raise InvalidRequest(f"actions: {name!r} is unknown; there are {known}", field="actions")
    if not draft.role and not draft.actions:
        raise InvalidRequest("role: give a role, or single actions in 'actions'; it would grant nothing", field="role")
    for pattern in draft.queues:
        if "*" in pattern[:-1]:
            fix = "a star may stand at the end only, as in 'mail-*'"
            raise InvalidRequest(f"queues: {pattern!r} is not valid; {fix}", field="queues")
    if draft.expires_at is not None and draft.expires_at <= now:
        raise InvalidRequest(
            f"expires_at: {draft.expires_at.isoformat()} is past; give a later time", field="expires_at"
        )


def covers_queue(queues: Collection[str], name: str) -> bool:
    """Return whether a token's queues include one; a pattern `mail-*` is included in `mail-*` and `mai*`."""
    return not queues or any(
        name == one or (one.endswith("*") and name.removesuffix("*").startswith(one[:-1])) for one in queues
    )


def named_queues(queues: Iterable[str]) -> tuple[str, ...] | None:
    """Return a token's queues if all are names; None if one is a pattern."""
    names = tuple(queues)
    return None if any(name.endswith("*") for name in names) else names


def secret_of(token_id: str, random: str) -> str:
    """Compose a secret of a qualified id and a random part, in lower-case base32."""
    head = f"rota_{token_id}_{random}"
    return f"{head}_{_checksum(head)}"


def _checksum(head: str) -> str:
    return sha256(head.encode()).hexdigest()[:8]


def id_of_secret(secret: str) -> str | None:
    """Return the qualified id in a secret; None if it has another format or its checksum is wrong."""
    match = _SECRET.fullmatch(secret)
    if match is None or _checksum(match[1]) != match[3]:
        return None
    return match[2]


def qualified_id(namespace: str, token_id: str) -> str:
    """Return the id of a token with its namespace before it; the default one is empty and adds nothing."""
    return f"{namespace}_{token_id}" if namespace else token_id


def split_id(qualified: str) -> tuple[str, str]:
    """Split a qualified id into namespace and id."""
    namespace, _, token_id = qualified.rpartition("_")
    return namespace, token_id


def digest_of_secret(secret: bytes) -> bytes:
    return sha256(secret).digest()


def is_strong(secret: str) -> bool:
    """Return whether a secret chosen by a person could have 128 random bits, judged by its length and alphabet."""
    alphabets = (("0123456789", 10), ("0123456789abcdef", 16), ("0123456789abcdefghijklmnopqrstuvwxyz", 36))
    size = next((count for letters, count in alphabets if set(secret.lower()) <= set(letters)), 64)
    return len(set(secret)) >= _LEAST_DISTINCT and len(secret) * math.log2(size) >= _LEAST_BITS

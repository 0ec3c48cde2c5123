"""Namespaces: separate sets of jobs, queues, schedules, tokens and all else in one deployment.

A namespace is a store of its own: a schema on PostgreSQL, a database on MariaDB, a file on SQLite. So no statement
can reach from one into another. The default namespace is the store that the settings name; its table of namespaces
lists the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from rota.core.errors import InvalidRequest
from rota.core.value import value

#: The default namespace may be named by this word; it cannot be created.
DEFAULT: Final = "default"
#: How many namespaces a deployment may have: each costs connections and upkeep in every scheduler.
MOST_NAMESPACES: Final = 100
PATTERN: Final = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
LONGEST_NAME: Final = 30
_NAME: Final = re.compile(PATTERN.removeprefix("^").removesuffix("$"), re.ASCII)


@value
class NamespaceLimits:
    """What the API allows all callers of a namespace together; None for no limit."""

    jobs_waiting: int | None = None
    requests_per_second: int | None = None
    bytes_in_flight: int | None = None

    @property
    def given(self) -> Mapping[str, int]:
        """The limits that are set, by name."""
        limits = {
            "jobs_waiting": self.jobs_waiting,
            "requests_per_second": self.requests_per_second,
            "bytes_in_flight": self.bytes_in_flight,
        }
        return {name: limit for name, limit in limits.items() if limit is not None}


NO_LIMITS: Final = NamespaceLimits()


@value
class Namespace:
    """A namespace, as the default one lists it."""

    name: str
    created_at: datetime
    limits: NamespaceLimits = NO_LIMITS
    #: From then on it is not found; its tables are dropped a little later.
    deleted_at: datetime | None = None
    #: When its tables were dropped; then the name may be used again.
    dropped_at: datetime | None = None
    version: int = 0

    @property
    def is_live(self) -> bool:
        return self.deleted_at is None


def check_name(name: str, *, field: str = "name") -> str:
    """Return the name of a namespace, or refuse it."""
    if name == DEFAULT:
        raise InvalidRequest(f"{field}: {DEFAULT!r} is the namespace that is always there", field=field)
    if len(name) > LONGEST_NAME or _NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"{field}: {name[:60]!r} is not a name of a namespace; write up to {LONGEST_NAME} lower-case letters and"
            " digits, with single hyphens between them, beginning with a letter",
            field=field,
        )
    return name

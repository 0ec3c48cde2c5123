"""Named advisory locks."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from rota.core.cluster import Lock
from rota.core.locks import LONGEST_NAME, NAME_PATTERN
from rota.wire.scalars import Duration, Fence, Moment, Name

LockName = Annotated[
    str,
    Meta(min_length=1, max_length=LONGEST_NAME, pattern=NAME_PATTERN, description="A lock: no blank, comma or slash."),
]


class LockForm(Struct, kw_only=True):
    """A lock that is held: its holder, since when, and until when unless it is renewed."""

    name: str
    holder: str
    fence: Fence
    since: Moment
    until: Moment


class LockList(Struct, kw_only=True):
    """The locks that are held, by name. `is_complete` is false when some were left out."""

    items: list[LockForm]
    is_complete: bool


class AcquireRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request to take a lock, or to renew it: the same holder keeps it. It is held for `hold` from now."""

    name: LockName
    holder: Name
    hold: Duration = "30s"


class AcquireReply(Struct, kw_only=True):
    """The lock; null if another holder has it."""

    lock: LockForm | None


class ReleaseRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request to release a lock."""

    name: LockName
    holder: Name


class ReleaseReply(Struct, kw_only=True):
    """The lock that was released; null if this holder did not have it."""

    lock: LockForm | None


def lock_form(lock: Lock) -> LockForm:
    return LockForm(name=lock.name, holder=lock.holder, fence=lock.fence, since=lock.since, until=lock.until)


def lock_of(form: LockForm) -> Lock:
    return Lock(form.name, form.holder, form.fence, form.since, form.until)

"""Inputs of jobs: the worker protocol for results that are passed on."""

from __future__ import annotations

from msgspec import Raw, Struct

from rota.wire.scalars import Fence, Identifier, LeaseToken


class InputRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker's question for what its job takes from the jobs before it."""

    id: Identifier
    fence: Fence
    lease_token: LeaseToken | None = None


class InputReply(Struct, kw_only=True):
    """The first argument of the job's handler. `holds` is false, and `value` null, when the lease is lost."""

    holds: bool
    value: Raw

"""Task types with their counts, workers and payload schemas; and the registration of schemas by workers."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from rota.core.payload_schema import LONGEST_SCHEMA, MOST_SCHEMAS
from rota.wire.history import Percentiles
from rota.wire.scalars import Count, Moment, Name

SchemaText = Annotated[str, Meta(min_length=2, max_length=LONGEST_SCHEMA, description="A JSON Schema as JSON text.")]


class TypesRegistration(Struct, kw_only=True, forbid_unknown_fields=True):
    """The JSON Schemas of payloads, by task type, as a worker derives them from its handlers."""

    schemas: Annotated[dict[Name, SchemaText], Meta(max_length=MOST_SCHEMAS)]


class TypeForm(Struct, kw_only=True):
    """A task type: its counts since a time, and which live workers know it.

    `failed` counts attempts, `dead` jobs that failed for good. `failure_rate` is the share of the ended attempts that
    failed, null without any. `wait` is the time from due to start, `duration` that of an attempt, in seconds.
    """

    type: str
    #: Those with jobs of it since then.
    queues: list[str]
    submitted: Count
    started: Count
    succeeded: Count
    failed: Count
    dead: Count
    lost: Count
    failure_rate: Annotated[float, Meta(ge=0, le=1)] | None
    wait: Percentiles
    duration: Percentiles
    #: Names of live workers, the first of them; `live_workers` counts all.
    workers: list[str]
    live_workers: Count


class TypeDetail(TypeForm, kw_only=True):
    """A task type, with the JSON Schema of its payloads if a worker has registered one, and when."""

    payload_schema: dict[str, Any] | None = None
    payload_schema_at: Moment | None = None


class TypeList(Struct, kw_only=True):
    """A page of task types, ordered by name.

    `uncounted` is how many started jobs belong to types that are not counted separately: a bucket of the history has
    at most 100 lanes.
    """

    since: Moment
    items: list[TypeForm]
    uncounted: Count = 0
    next_cursor: str | None = None

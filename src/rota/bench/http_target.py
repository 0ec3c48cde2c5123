"""A bench target that is an API over HTTP, at one or several addresses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Raw, Struct
from prometheus_client.parser import text_string_to_metric_families

from rota.bench.http_connection import BenchConnection
from rota.bench.plan import TYPE, BenchPlan
from rota.bench.targets import UNFINISHED, JobTimes, QueueCounts, RequestFailed, ServerUsage, Submitted, WorkerCapacity
from rota.core.lifecycle import State
from rota.telemetry import metric_definitions
from rota.tls import ClientFiles
from rota.wire.cluster import QueueForm, WorkerList
from rota.wire.jobs import BatchReply, BatchRequest, BulkActionRequest, JobPage
from rota.wire.problem import Problem
from rota.wire.submission import Submission
from rota.wire.system import Stats

T = TypeVar("T")
_PAGE: Final = 500
_FIRST_REFUSAL: Final = 400


class _SubmittedJob(Struct):
    """The only field of a submitted job that the bench reads: decoding less disturbs the measurement less."""

    id: str


class _Discarded(Struct):
    done: int


class HttpTarget:
    """One or several addresses of one deployment; the callers are distributed over them."""

    def __init__(
        self, plan: BenchPlan, urls: Sequence[str], token: str, store: str, tls: ClientFiles, namespace: str = ""
    ) -> None:
        self.name = ", ".join(urls)
        self.store = store
        self.is_http = True
        self._plan = plan
        parts = [urlsplit(url) for url in urls]
        context = tls.context() if any(part.scheme == "https" for part in parts) else None
        connections = range(plan.connections)
        self._callers = [
            BenchConnection(parts[number % len(parts)], token, context, namespace) for number in connections
        ]
        self._control = [BenchConnection(part, token, context, namespace) for part in parts]
        submission = Submission(type=TYPE, payload=Raw(plan.payload.encode()), queue=plan.queue, tags=[plan.tag])
        self._one = msgspec.json.encode(submission)
        self._batch = msgspec.json.encode(BatchRequest(jobs=[Raw(self._one)] * plan.batch))
        self._read_one = msgspec.json.Decoder(_SubmittedJob)
        self._read_batch = msgspec.json.Decoder(BatchReply)

    async def submit(self, caller: int, count: int) -> Submitted:
        """Submit one job, or a batch of the plan's size."""
        if count == 1:
            content = await self._post(self._callers[caller], "/v1/jobs", self._one)
            return Submitted((self._read_one.decode(content).id,))
        reply = self._read_batch.decode(await self._post(self._callers[caller], "/v1/jobs:batch", self._batch))
        made = [item.id for item in reply.items if item.error is None and item.id is not None]
        return Submitted(made, [f"{item.status} {item.error.code}" for item in reply.items if item.error is not None])

    async def round_trip(self) -> None:
        """Ask for liveness, which uses no store."""
        await self._control[0].ask("GET", "/livez")

    async def usage(self) -> Sequence[ServerUsage]:
        values = []
        for connection in self._control:
            status, content = await connection.ask("GET", "/metrics", accept="text/plain")
            if status < _FIRST_REFUSAL:
                values.append(_usage_of(content.decode()))
        return values

    async def capacity(self) -> WorkerCapacity:
        queue = self._plan.queue
        workers = (await self._call("GET", "/v1/workers?limit=500", WorkerList)).items
        able = [one for one in workers if queue in one.queues and (one.types is None or TYPE in one.types)]
        able = [one for one in able if one.is_alive and not one.is_draining]
        form = await self._call("GET", f"/v1/queues/{quote(queue, safe='')}", QueueForm)
        return WorkerCapacity(len(able), sum(one.slots for one in able), form.is_paused)

    async def counts(self) -> QueueCounts:
        stats = await self._call("GET", "/v1/stats?limit=5000", Stats)
        lanes = stats.lanes
        while stats.next_cursor is not None:
            stats = await self._call("GET", f"/v1/stats?limit=5000&cursor={stats.next_cursor}", Stats)
            lanes += stats.lanes
        counted = [
            one for one in lanes if (one.queue, one.type) == (self._plan.queue, TYPE) and one.state in UNFINISHED
        ]
        running = sum(one.count for one in counted if one.state is State.RUNNING)
        return QueueCounts(sum(one.count for one in counted) - running, running)

    async def times(self, ids: Sequence[str]) -> Sequence[JobTimes]:
        values: list[JobTimes] = []
        for page in _pages(ids, _PAGE):
            forms = (await self._call("GET", f"/v1/jobs?ids={','.join(page)}", JobPage)).items
            values += [JobTimes(form.created_at, form.started_at, form.completed_at) for form in forms]
        return values

    async def cancel(self, ids: Sequence[str]) -> None:
        await self._call("POST", "/v1/jobs:cancel", Raw, BulkActionRequest(ids=list(ids)))

    async def discard(self, ids: Sequence[str]) -> int:
        """Delete jobs; needs a token that may do everything."""
        return (await self._call("POST", "/v1/dead-letters:discard", _Discarded, BulkActionRequest(ids=list(ids)))).done

    async def close(self) -> None:
        for connection in (*self._callers, *self._control):
            connection.close()

    async def _post(self, connection: BenchConnection, path: str, body: bytes) -> bytes:
        status, content = await connection.ask("POST", path, body)
        if status >= _FIRST_REFUSAL:
            raise RequestFailed(_kind_of(status, content))
        return content

    async def _call(self, method: str, path: str, answer: type[T], body: Any = None) -> T:  # noqa: ANN401 - any form
        content = None if body is None else msgspec.json.encode(body)
        status, values = await self._control[0].ask(method, path, content)
        if status >= _FIRST_REFUSAL:
            raise RequestFailed(_kind_of(status, values))
        return msgspec.json.decode(values, type=answer)


def _kind_of(status: int, content: bytes) -> str:
    try:
        return f"{status} {msgspec.json.decode(content, type=Problem).code}"
    except msgspec.DecodeError:
        # Not an answer of Rota: of a proxy in between.
        return f"{status}"


def _usage_of(text: str) -> ServerUsage:
    """Read CPU time and submit calls from the metrics text."""
    names = {
        metric_definitions.CPU.name,
        f"{metric_definitions.STORE.name}_count",
        f"{metric_definitions.STORE.name}_sum",
    }
    values = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in names and sample.labels.get("operation", "submit") == "submit"
    }
    return ServerUsage(
        values.get(metric_definitions.CPU.name),
        values.get(f"{metric_definitions.STORE.name}_count", 0.0),
        values.get(f"{metric_definitions.STORE.name}_sum", 0.0),
    )


def _pages(items: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    return (items[start : start + size] for start in range(0, len(items), size))

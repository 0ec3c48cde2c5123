"""A deployment that is reached over HTTP, as its users reach it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Raw, Struct
from prometheus_client.parser import text_string_to_metric_families

from rota.cli.bench.connection import Connection
from rota.cli.bench.plan import TYPE, Plan
from rota.cli.bench.targets import UNDER_WAY, Crew, Made, Strain, Tide, Times, Trouble
from rota.core.lifecycle import State
from rota.telemetry import catalogue
from rota.wire.fleet import QueueForm, WorkerList
from rota.wire.jobs import ActRequest, BatchReply, BatchRequest, JobPage
from rota.wire.problem import Problem
from rota.wire.submission import Submission
from rota.wire.system import Stats

T = TypeVar("T")
_PAGE: Final = 500
_FIRST_REFUSAL: Final = 400


class _Made(Struct):
    """As much of a job as a bench reads: the less it spends on an answer, the less it measures itself."""

    id: str


class _Discarded(Struct):
    done: int


class OverHttp:
    """One or several addresses of one deployment. The callers are spread over them."""

    def __init__(self, plan: Plan, urls: Sequence[str], token: str, store: str) -> None:
        self.name = ", ".join(urls)
        self.store = store
        self.is_http = True
        self._plan = plan
        parts = [urlsplit(url) for url in urls]
        self._callers = [Connection(parts[number % len(parts)], token) for number in range(plan.connections)]
        self._control = [Connection(part, token) for part in parts]
        submission = Submission(type=TYPE, payload=Raw(plan.payload.encode()), queue=plan.queue, tags=[plan.tag])
        self._one = msgspec.json.encode(submission)
        self._batch = msgspec.json.encode(BatchRequest(jobs=[Raw(self._one)] * plan.batch))
        self._read_one = msgspec.json.Decoder(_Made)
        self._read_batch = msgspec.json.Decoder(BatchReply)

    async def submit(self, caller: int, count: int) -> Made:
        """Submit one job, or as many as the plan says at once."""
        if count == 1:
            content = await self._sent(self._callers[caller], "/v1/jobs", self._one)
            return Made((self._read_one.decode(content).id,))
        reply = self._read_batch.decode(await self._sent(self._callers[caller], "/v1/jobs:batch", self._batch))
        made = [item.id for item in reply.items if item.error is None and item.id is not None]
        return Made(made, [f"{item.status} {item.error.code}" for item in reply.items if item.error is not None])

    async def round_trip(self) -> None:
        """Ask whether the process lives: it looks at nothing to say so."""
        await self._control[0].ask("GET", "/livez")

    async def strain(self) -> Sequence[Strain]:
        """Read every address's metrics."""
        found = []
        for connection in self._control:
            status, content = await connection.ask("GET", "/metrics", accept="text/plain")
            if status < _FIRST_REFUSAL:
                found.append(_strain_of(content.decode()))
        return found

    async def crew(self) -> Crew:
        """Look at the workers on record, and at the queue."""
        queue = self._plan.queue
        there = (await self._asked("GET", "/v1/workers?limit=500", WorkerList)).items
        able = [one for one in there if queue in one.queues and (one.types is None or TYPE in one.types)]
        able = [one for one in able if one.is_alive and not one.is_draining]
        form = await self._asked("GET", f"/v1/queues/{quote(queue, safe='')}", QueueForm)
        return Crew(len(able), sum(one.slots for one in able), form.is_paused)

    async def tide(self) -> Tide:
        """Count the queue's jobs."""
        stats = await self._asked("GET", "/v1/stats?limit=5000", Stats)
        lanes = stats.lanes
        while stats.next_cursor is not None:
            stats = await self._asked("GET", f"/v1/stats?limit=5000&cursor={stats.next_cursor}", Stats)
            lanes += stats.lanes
        mine = [one for one in lanes if (one.queue, one.type) == (self._plan.queue, TYPE) and one.state in UNDER_WAY]
        running = sum(one.count for one in mine if one.state is State.RUNNING)
        return Tide(sum(one.count for one in mine) - running, running)

    async def times(self, ids: Sequence[str]) -> Sequence[Times]:
        """Look at jobs, a page at a time."""
        found: list[Times] = []
        for page in _pages(ids, _PAGE):
            forms = (await self._asked("GET", f"/v1/jobs?ids={','.join(page)}", JobPage)).items
            found += [Times(form.created_at, form.started_at, form.completed_at) for form in forms]
        return found

    async def cancel(self, ids: Sequence[str]) -> None:
        """Cancel jobs; those that have ended stay as they are."""
        await self._asked("POST", "/v1/jobs:cancel", Raw, ActRequest(ids=list(ids)))

    async def discard(self, ids: Sequence[str]) -> int:
        """Delete them. This needs a token that may do everything."""
        return (await self._asked("POST", "/v1/dead-letters:discard", _Discarded, ActRequest(ids=list(ids)))).done

    async def close(self) -> None:
        """Let go of all connections."""
        for connection in (*self._callers, *self._control):
            connection.close()

    async def _sent(self, connection: Connection, path: str, body: bytes) -> bytes:
        status, content = await connection.ask("POST", path, body)
        if status >= _FIRST_REFUSAL:
            raise Trouble(_kind_of(status, content))
        return content

    async def _asked(self, method: str, path: str, answer: type[T], body: Any = None) -> T:  # noqa: ANN401 - any form
        content = None if body is None else msgspec.json.encode(body)
        status, found = await self._control[0].ask(method, path, content)
        if status >= _FIRST_REFUSAL:
            raise Trouble(_kind_of(status, found))
        return msgspec.json.decode(found, type=answer)


def _kind_of(status: int, content: bytes) -> str:
    try:
        return f"{status} {msgspec.json.decode(content, type=Problem).code}"
    except msgspec.DecodeError:
        # Not from us: a proxy between.
        return f"{status}"


def _strain_of(text: str) -> Strain:
    """Read what a bench wants to know from the text that scrapers read."""
    wanted = {catalogue.CPU.name, f"{catalogue.STORE.name}_count", f"{catalogue.STORE.name}_sum"}
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in wanted and sample.labels.get("operation", "submit") == "submit"
    }
    return Strain(
        found.get(catalogue.CPU.name),
        found.get(f"{catalogue.STORE.name}_count", 0.0),
        found.get(f"{catalogue.STORE.name}_sum", 0.0),
    )


def _pages(items: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    return (items[start : start + size] for start in range(0, len(items), size))

"""The namespaces that a process hosts: each is a store of its own, with its engine, upkeep and API context.

A process of the default namespace hosts the others; one that is started in a namespace serves only that. The list is in
the default store. One loop reads it every `LOOK_SECONDS`: it applies limits, closes what was deleted, and in a process
with a scheduler opens what is new. The API opens a namespace when a request first names it, and reads the list at once
for a name that it does not know.

A deleted namespace is unknown to a process as soon as it has read the list. The leading scheduler drops the tables
`DROP_AFTER` later, when all processes have closed them; if it dies before, the next leader does. A namespace whose
components fail is closed and opened again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rota.core.errors import InvalidRequest, RotaError
from rota.core.namespace import Namespace, NamespaceLimits, check_name
from rota.engine import Engine
from rota.engine.namespaces import unknown_namespace
from rota.ports.client import Actor
from rota.runtime import Link, open_link
from rota.runtime.membership import Membership
from rota.runtime.namespace_stores import drop, exists, make, refuse_existing, store_url
from rota.settings import Settings
from rota.telemetry.outage import Outage

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.runtime.components import Components

LOOK_SECONDS: Final = 4.0
#: Longer than every process needs to notice a deletion.
DROP_AFTER: Final = timedelta(seconds=10)
#: The shortest time between two reads of the list for names that are not known.
SHORTEST_PAUSE_SECONDS: Final = 0.2
_log = logging.getLogger("rota.namespaces")

#: Makes the components of a hosted namespace, which are not started yet.
MakeComponents = Callable[[Settings, Link], "Components"]
#: Makes the API context of a hosted namespace.
MakeContext = Callable[[Engine, Settings, Membership], "Context"]


@dataclass(slots=True)
class HostedNamespace:
    """One open namespace."""

    namespace: Namespace
    link: Link
    components: Components
    context: Context | None

    async def close(self) -> None:
        """End its requests, its upkeep and its connections."""
        if self.context is not None:
            self.context.closing.set()
            # Its tokens are not valid in another namespace of the same name.
            self.context.tokens.forget()
            await self.context.aclose()
        await self.components.end()
        await self.link.close()


class NamespaceServices:
    """Opens and closes the other namespaces of a deployment."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        url: str,
        make_components: MakeComponents,
        *,
        schedules: bool = False,
        stands_by: Callable[[], bool] = lambda: False,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._url = url
        self._make_components = make_components
        self._schedules = schedules
        self._stands_by = stands_by
        #: Set by the API, if this process serves it.
        self.make_context: MakeContext | None = None
        self._known: dict[str, Namespace] = {}
        self._open: dict[str, HostedNamespace] = {}
        self._opening: dict[str, asyncio.Task[HostedNamespace]] = {}
        self._looking = asyncio.Lock()
        self._looked_at = float("-inf")
        self._outage = Outage(_log, "reading the list of namespaces")
        self._outages: dict[str, Outage] = {}

    async def run(self) -> None:
        """Follow the list until cancelled."""
        while True:
            try:
                await self.tick()
                self._outage.worked()
            except Exception as error:  # noqa: BLE001 - whatever a driver raises, the loop goes on
                self._outage.failed(error, with_traceback=not isinstance(error, RotaError))
            await asyncio.sleep(LOOK_SECONDS)

    async def close(self) -> None:
        for task in tuple(self._opening.values()):
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        hosted, self._open = self._open, {}
        for one in hosted.values():
            await self._close(one)

    async def tick(self) -> int:
        """Follow the list once; return how many namespaces are open."""
        listed = await self._look()
        failed = [name for name, hosted in self._open.items() if hosted.components.has_failed]
        for name in failed:
            _log.error("namespace %s: a component failed; it is opened again", name)
        await self._close_all(failed)
        if self._schedules:
            for name in sorted(self._known.keys() - self._open.keys()):
                await self._try(name, self._opened(name))
            if not self._stands_by():
                await self._drop(listed)
        return len(self._open)

    async def _look(self) -> list[Namespace]:
        listed = list(await self._engine.store.namespaces())
        self._looked_at = asyncio.get_running_loop().time()
        self._known = {one.name: one for one in listed if one.is_live}
        gone = []
        for name, hosted in self._open.items():
            now = self._known.get(name)
            # A name that was used again is another namespace.
            if now is None or now.created_at != hosted.namespace.created_at:
                gone.append(name)
            elif hosted.context is not None and now.limits != hosted.namespace.limits:
                hosted.context.limit(now.limits)
                hosted.namespace = now
        await self._close_all(gone)
        return listed

    async def _close_all(self, names: Sequence[str]) -> None:
        # Taken out before any is closed: closing takes a while.
        for hosted in [self._open.pop(name) for name in names]:
            _log.info("namespace %s is closed", hosted.namespace.name)
            await self._close(hosted)

    async def _drop(self, listed: list[Namespace]) -> None:
        deleted = [one for one in listed if one.deleted_at is not None and one.dropped_at is None]
        if not deleted:
            return
        before = await self._engine.store.time() - DROP_AFTER
        for one in deleted:
            if one.deleted_at is not None and one.deleted_at <= before:
                await self._try(one.name, self._drop_one(one))

    async def _drop_one(self, namespace: Namespace) -> None:
        await drop(store_url(self._url, namespace.name))
        await self._engine.namespaces.note_dropped(namespace)
        _log.info("namespace %s: its tables are dropped", namespace.name)

    async def _try(self, name: str, act: Awaitable[object]) -> None:
        """Do something with one namespace; its failure does not stop the others, and is logged once."""
        outage = self._outages.setdefault(name, Outage(_log, f"namespace {name}"))
        try:
            await act
            outage.worked()
        except Exception as error:  # noqa: BLE001 - as above
            outage.failed(error, with_traceback=not isinstance(error, RotaError))

    # For the API

    def opened(self, name: str) -> Context | None:
        hosted = self._open.get(name)
        return None if hosted is None else hosted.context

    async def open(self, name: str) -> Context:
        context = (await self._opened(name)).context
        if context is None:
            raise unknown_namespace(name)
        return context

    async def engine_of(self, name: str) -> Engine:
        return (await self.open(name)).engine

    def contexts(self) -> Iterator[Context]:
        return (one.context for one in self._open.values() if one.context is not None)

    async def create(self, name: str, limits: NamespaceLimits, by: Actor) -> Namespace:
        url = store_url(self._url, check_name(name))
        listed = {one.name for one in await self._engine.store.namespaces() if one.dropped_at is None}
        if name not in listed:
            await refuse_existing(url, name)
        namespace = await self._engine.namespaces.create(name, limits, by)
        try:
            await make(url)
        except RotaError as error:
            await self._engine.namespaces.take_back(namespace)
            raise InvalidRequest(f"name: the tables of {name!r} cannot be made: {error}", field="name") from error
        await self._look()
        return namespace

    async def refresh(self) -> None:
        await self._look()

    async def _opened(self, name: str) -> HostedNamespace:
        hosted = self._open.get(name)
        if hosted is not None:
            return hosted
        if name not in self._known:
            await self._look_for(name)
        if name not in self._opening:
            task = self._opening[name] = asyncio.create_task(self._start(self._known[name]))
            task.add_done_callback(lambda _: self._opening.pop(name, None))
        return await asyncio.shield(self._opening[name])

    async def _look_for(self, name: str) -> None:
        """Read the list for a name that is not known; many callers share one read."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        async with self._looking:
            if self._looked_at < asked_at:
                await asyncio.sleep(max(self._looked_at + SHORTEST_PAUSE_SECONDS - loop.time(), 0.0))
                await self._look()
        if name not in self._known:
            raise unknown_namespace(name)

    async def _start(self, namespace: Namespace) -> HostedNamespace:
        settings = replace(self._settings, namespace=namespace.name)
        url = store_url(self._url, namespace.name)
        if not await exists(url):
            # The process that created it died before it made the tables.
            await make(url)
        link = await open_link(settings, url, few_connections=True)
        components = self._make_components(settings, link)
        hosted = HostedNamespace(namespace, link, components, None)
        try:
            await components.start()
            if self.make_context is not None and link.engine is not None and components.membership is not None:
                hosted.context = self.make_context(link.engine, settings, components.membership)
                hosted.context.limit(namespace.limits)
        except BaseException:
            await self._close(hosted)
            raise
        self._open[namespace.name] = hosted
        _log.info("namespace %s is open", namespace.name)
        return hosted

    async def _close(self, hosted: HostedNamespace) -> None:
        try:
            await hosted.close()
        except Exception as error:  # noqa: BLE001 - its store may be gone
            _log.warning("namespace %s: cannot be closed in order: %s", hosted.namespace.name, error)

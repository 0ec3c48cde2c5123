"""The app's connection to its store or API: how a submission gets there from any thread and any event loop.

A submission takes one of three ways:

- The portal (a background thread with an event loop, see `portal`) holds the app's link. Submissions of all threads
  and loops are batched and sent on that link. This always works; the other two are faster.
- A store in a file: `FileSubmitter` submits without the portal's loop, because SQLite has one writer that serves all
  threads and loops of the process.
- A database server: an event loop that submits often gets a link of its own, see `loop_links`.

Everything is opened when it is first needed, and again after a close.

A forked process has only the thread that forked, and its connections belong to its parent: using one would corrupt a
file or mix up two conversations with a server. So the child uses and closes none of them and starts anew. Only what is
open on a file is closed; see `rota.stores.sqlite.fork`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, WeakSet

from rota.batching import Batcher, Serve
from rota.core.submission import NewJob
from rota.ports.caller_tx import run_sync
from rota.ports.client import Control
from rota.ports.store import Inserted
from rota.runtime.store import is_server
from rota.sdk.loop_links import LoopLinks
from rota.sdk.portal import Portal, PortalBatcher, running_loop
from rota.settings import Settings

if TYPE_CHECKING:
    from rota.runtime import DirectSubmit, Link

#: How long closing waits for another thread's loop to finish the submissions it holds.
CLOSE_SECONDS: Final = 5.0

SubmissionBatcher = Batcher[NewJob, Inserted]


class Gateway:
    """Submits jobs and opens links, for one app."""

    def __init__(self, url: str, settings: Settings) -> None:
        self.url = url
        self._settings = settings
        #: Whether a worker runs in this process. It is on the portal's link, and is notified at once of jobs that are
        #: submitted there.
        self.runs_jobs = False
        self._start()
        _ALL.add(self)

    def _start(self) -> None:
        self._guard = threading.Lock()
        self._portal: Portal | None = None
        self._portal_batcher: PortalBatcher[NewJob, Inserted] | None = None
        #: The links by the loops they live on.
        self._links: dict[asyncio.AbstractEventLoop, asyncio.Future[Link]] = {}
        self._loop_links: LoopLinks[NewJob, Inserted] | None = None
        if is_server(self.url):
            self._loop_links = LoopLinks(self._open_submit, self._unlink)
        #: Whether the store may be a file; known for certain once a link is open.
        self._may_be_file = not (self._loop_links or self.url.startswith(("http://", "https://")))
        self._file_submitter: FileSubmitter | None = None

    def restart_after_fork(self) -> None:
        """Start anew in a forked process. Nothing is closed: it all belongs to the parent."""
        _LEFT_OPEN.append((self._portal, self._portal_batcher, self._links, self._loop_links, self._file_submitter))
        self._start()

    def submit(self, jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        """Submit jobs from code that is not async."""
        submitter = self._file_submitter
        if submitter is None:
            portal, batcher = self._opened()
            portal.require_elsewhere()
            if self._may_be_file:
                submitter = self._open_file_submitter(portal, portal.call(self.link()))
            if submitter is None:
                return batcher.submit(jobs)
        return submitter.submit(jobs)

    def asubmit(self, jobs: Sequence[NewJob]) -> Awaitable[Sequence[Inserted]]:
        """Submit jobs from any loop."""
        # Not async, nor what it calls where a loop has a batcher: with many callers, coroutines that only await another
        # add up.
        if self._loop_links is None:
            batcher = None if self._file_submitter is None else self._file_submitter.batcher()
        else:
            batcher = None if self.runs_jobs else self._loop_links.batcher()
        return self._asubmit(jobs) if batcher is None else batcher.run(jobs)

    async def _asubmit(self, jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        """Submit jobs through the portal, or open the file submitter first."""
        if self._may_be_file:
            portal = self.portal
            submitter = self._open_file_submitter(portal, await portal.acall(self.link()))
            if submitter is not None:
                return await submitter.batcher().run(jobs)
        return await self._opened()[1].asubmit(jobs)

    def close(self) -> None:
        """Finish what was submitted, and close everything."""
        if (opened := self._portal) is not None:
            opened.require_elsewhere()
        if self._loop_links is not None:
            self._loop_links.close()
        with self._guard:
            portal, self._portal = self._portal, None
            batcher, self._portal_batcher = self._portal_batcher, None
            submitter, self._file_submitter = self._file_submitter, None
        if submitter is not None:
            submitter.close()
        if portal is not None and batcher is not None:
            portal.close(self._finish(batcher))

    @property
    def portal(self) -> Portal:
        """The background loop that holds the app's link."""
        return self._opened()[0]

    def _opened(self) -> tuple[Portal, PortalBatcher[NewJob, Inserted]]:
        with self._guard:
            if self._portal is None or self._portal_batcher is None:
                self._portal = Portal()
                self._portal_batcher = PortalBatcher(self._portal.loop, Batcher(self._send))
            return self._portal, self._portal_batcher

    def _open_file_submitter(self, portal: Portal, link: Link) -> FileSubmitter | None:
        """Return the file submitter of the portal's link; None if the store is no file or the portal was closed."""
        with self._guard:
            if link.direct_submit is None:
                self._may_be_file = False
            elif self._portal is portal and self._file_submitter is None:
                self._file_submitter = FileSubmitter(link.direct_submit, portal)
            return self._file_submitter

    async def link(self) -> Link:
        """Open the link of the running loop, once."""
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None or (link.done() and (link.cancelled() or link.exception() is not None)):
            # Imported when needed: engine and stores take longer to load than all the rest.
            from rota.runtime import open_link  # noqa: PLC0415

            link = asyncio.ensure_future(open_link(self._settings, self.url))
            self._links[loop] = link
        # Many callers wait for it: the cancellation of one must not cancel it.
        return await asyncio.shield(link)

    async def _unlink(self) -> None:
        """Close the link of the running loop."""
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is not None:
            if not link.done():
                link.cancel()
                await asyncio.wait([link])
            if not link.cancelled() and link.exception() is None:
                await link.result().close()
            # Last: if this is cancelled before, it is called again.
            self._links.pop(loop, None)

    async def _finish(self, batcher: PortalBatcher[NewJob, Inserted]) -> None:
        try:
            await batcher.close()
        finally:
            await self._unlink()

    async def control(self) -> Control:
        """Return the verbs for jobs (submit, get, cancel …); runs on the portal's loop."""
        return (await self.link()).control

    async def _send(self, jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        return await (await self.link()).control.submit(jobs)

    async def _open_submit(self) -> Serve[Inserted]:
        """Open a link of the running loop, and give its verb to submit."""
        return (await self.link()).control.submit


class FileSubmitter:
    """Submits to a store in a file without the portal's loop.

    A file has one writer for all threads and loops of the process. A thread does its own write, or shares the write of
    others that are there already. A loop must not wait for a disk: the submissions of its tasks are batched, and the
    writer wakes the loop once for each batch.
    """

    def __init__(self, direct: DirectSubmit, portal: Portal) -> None:
        self._direct = direct
        self._portal = portal
        self._guard = threading.Lock()
        self._batchers: WeakKeyDictionary[asyncio.AbstractEventLoop, SubmissionBatcher] = WeakKeyDictionary()

    def submit(self, jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        """Submit jobs from code that is not async."""
        self._portal.require_elsewhere()
        return run_sync(self._direct.submit_blocking(jobs))

    def batcher(self) -> SubmissionBatcher:
        """Return the batcher of the running loop."""
        loop = asyncio.get_running_loop()
        batcher = self._batchers.get(loop)
        if batcher is None:
            batcher = Batcher(self._direct.submit, prompt=True)
            with self._guard:
                self._batchers[loop] = batcher
        return batcher

    def close(self) -> None:
        """Finish all submissions that are waiting."""
        with self._guard:
            batchers = dict(self._batchers)
            self._batchers.clear()
        for loop, batcher in batchers.items():
            if loop is running_loop():
                # It does not run while this blocks it.
                batcher.finish(self._direct.submit_blocking)
            elif loop.is_running():
                # It may end meanwhile, or be busy for long; submissions that come too late are refused by the store.
                with suppress(Exception):
                    asyncio.run_coroutine_threadsafe(batcher.close(), loop).result(CLOSE_SECONDS)


_ALL: WeakSet[Gateway] = WeakSet()
#: What a forked process must neither use nor close, nor let the garbage collector close.
_LEFT_OPEN: list[object] = []


def _restart_all() -> None:
    for gateway in tuple(_ALL):
        gateway.restart_after_fork()


os.register_at_fork(after_in_child=_restart_all)

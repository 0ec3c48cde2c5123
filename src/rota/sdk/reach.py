"""Reach: how an app reaches its store or its API, from any thread and any loop.

The portal's loop holds the link, and serves whoever has no nearer way. Nearer are: for a file, the side; for a loop
that submits much to a server's database, a home. What is opened here is opened when it is first needed, and again
after a close.

A process that was forked has no threads but the one that forked, and its connections are its parent's: to use one
would ruin a file, or mix up two conversations with a server. So it leaves all of that alone and starts anew. Only what
is open on a file is closed; see `rota.stores.sqlite.forking`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Sequence
from weakref import WeakSet

from rota.core.submission import NewJob
from rota.desk import MergingDesk, Serve
from rota.ports.faces import Control
from rota.ports.store import Inserted
from rota.runtime import Link, open_link
from rota.runtime.store import is_server
from rota.sdk.homes import Homes
from rota.sdk.mailbox import Mailbox
from rota.sdk.portal import Portal
from rota.sdk.side import Side
from rota.settings import Settings


class Reach:
    """Everything between an app and where its jobs go."""

    def __init__(self, url: str, settings: Settings) -> None:
        self.url = url
        self._settings = settings
        #: Whether a worker runs in this process. It is on the portal's link, and hears at once of what comes by that.
        self.runs_jobs = False
        self._start()
        _ALL.add(self)

    def _start(self) -> None:
        self._guard = threading.Lock()
        self._portal: Portal | None = None
        self._mailbox: Mailbox[NewJob, Inserted] | None = None
        #: The links by the loops they live on.
        self._links: dict[asyncio.AbstractEventLoop, asyncio.Future[Link]] = {}
        self._homes: Homes[NewJob, Inserted] | None = None
        if is_server(self.url):
            self._homes = Homes(self._move_in, self._unlink)
        #: Whether there may be a side; a link has to be there to tell.
        self._may_have_side = not (self._homes or self.url.startswith(("http://", "https://")))
        self._side: Side | None = None

    def forget(self) -> None:
        """Start anew in a forked process. Nothing is closed: it is all the parent's."""
        _LEFT_ALONE.append((self._portal, self._mailbox, self._links, self._homes, self._side))
        self._start()

    def post(self, jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        """Submit jobs from code that is not async."""
        side = self._side
        if side is None:
            portal, mailbox = self._opened()
            portal.require_elsewhere()
            if self._may_have_side:
                side = self._beside(portal, portal.call(self.link()))
            if side is None:
                return mailbox.post(jobs)
        return side.post(jobs)

    def apost(self, jobs: Sequence[NewJob]) -> Awaitable[Sequence[Inserted]]:
        """Submit jobs from any loop."""
        # Not async, nor what it calls where a loop has a desk: in a crowd, coroutines that only hand on add up.
        if self._homes is None:
            desk = None if self._side is None else self._side.desk()
        else:
            desk = None if self.runs_jobs else self._homes.desk()
        return self._apost(jobs) if desk is None else desk.run(jobs)

    async def _apost(self, jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        """Submit jobs by the portal, or open the side first."""
        if self._may_have_side:
            portal = self.portal
            side = self._beside(portal, await portal.acall(self.link()))
            if side is not None:
                return await side.desk().run(jobs)
        return await self._opened()[1].apost(jobs)

    def close(self) -> None:
        """Let go of everything, once what was handed in is done."""
        if (opened := self._portal) is not None:
            opened.require_elsewhere()
        if self._homes is not None:
            self._homes.close()
        with self._guard:
            portal, self._portal = self._portal, None
            mailbox, self._mailbox = self._mailbox, None
            side, self._side = self._side, None
        if side is not None:
            side.close()
        if portal is not None and mailbox is not None:
            portal.close(self._finish(mailbox))

    @property
    def portal(self) -> Portal:
        """The loop through which the engine is reached."""
        return self._opened()[0]

    def _opened(self) -> tuple[Portal, Mailbox[NewJob, Inserted]]:
        """Give the portal and where jobs are handed in for it; they come and go together."""
        with self._guard:
            if self._portal is None or self._mailbox is None:
                self._portal = Portal()
                self._mailbox = Mailbox(self._portal.loop, MergingDesk(self._send))
            return self._portal, self._mailbox

    def _beside(self, portal: Portal, link: Link) -> Side | None:
        """Give the side of a portal's link; None if it has none, or is closed by now."""
        with self._guard:
            if link.side_door is None:
                self._may_have_side = False
            elif self._portal is portal and self._side is None:
                self._side = Side(link.side_door, portal)
            return self._side

    async def link(self) -> Link:
        """Link up, once for the running loop."""
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None or (link.done() and (link.cancelled() or link.exception() is not None)):
            link = asyncio.ensure_future(open_link(self._settings, self.url))
            self._links[loop] = link
        # Many wait for it: one who goes away must not call it off.
        return await asyncio.shield(link)

    async def _unlink(self) -> None:
        """Let go of the link of the running loop."""
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is not None:
            if not link.done():
                link.cancel()
                await asyncio.wait([link])
            if not link.cancelled() and link.exception() is None:
                await link.result().close()
            # Last: who is interrupted here comes again.
            self._links.pop(loop, None)

    async def _finish(self, mailbox: Mailbox[NewJob, Inserted]) -> None:
        """Have everything served, and unlink the portal's loop."""
        try:
            await mailbox.close()
        finally:
            await self._unlink()

    async def control(self) -> Control:
        """Give the face through which jobs are submitted and looked at; runs on the portal's loop."""
        return (await self.link()).control

    async def _send(self, jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        """Submit jobs by the link of the running loop."""
        return await (await self.link()).control.submit(jobs)

    async def _move_in(self) -> Serve[Inserted]:
        """Link the running loop up by itself, and give what submits by that."""
        return (await self.link()).control.submit


_ALL: WeakSet[Reach] = WeakSet()
#: What must neither be used nor closed here, nor be cleared away, which would close it.
_LEFT_ALONE: list[object] = []


def _forget_all() -> None:
    for reach in tuple(_ALL):
        reach.forget()


os.register_at_fork(after_in_child=_forget_all)

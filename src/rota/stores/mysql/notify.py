"""Notifications between processes: `Notifier` wakes, `Listener` waits in the server, `NotificationWatch` wakes callers.

MariaDB has no LISTEN/NOTIFY. A writer that has made work counts up its row of `rota_notification` in the same
transaction. Reading that table finds all notifications, if late. To be notified at once, a process has a listener: a
connection that waits inside the server, in a statement that reads the table, waits if nothing is new, and reads it
again after a second at the latest. After its commit a writer wakes all listeners: it ends their wait with `KILL QUERY`,
which every user may do to its own statements. One wake is under way at a time; notifications made meanwhile share the
next. Wakes are hints, no caller waits for them or relies on them.

A listener waits for a named lock that another connection of its process holds. It could call `SLEEP`, but all sleepers
of a server share a mutex, and to end two sleeps at once may stop every sleeper for 2 s.

`KILL QUERY` must never hit another statement. So connection ids are not stored, where they would become stale. A
listener holds a slot, a second named lock, and the waking statement itself finds the connection that holds it. Slots
are numbered. A listener takes the lowest free one and moves to a lower one now and then, so gaps do not last. A waker
goes through the slots until several in a row are empty.

A listener first tests whether it can be woken. It cannot on MySQL, which has no compound statements, nor behind a proxy
to several servers, nor in a cluster without named locks. And some writers notify without waking: callers' transactions,
other users, other servers of a cluster. So the table is also polled: soon after the last notification, then less and
less often. A process that finds a notification for which it was not woken polls for a while as if it could not be
woken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, cast

from rota.core.errors import RotaError
from rota.ports.wakeup import ANY_CHANGE, Wake
from rota.stores.mysql.driver import RESPONSE_SECONDS, MysqlConnection, connect
from rota.stores.mysql.errors import ConnectionLost, RetryTransaction, ServerRefused, StatementKilled
from rota.stores.mysql.pool import Pool
from rota.stores.mysql.statements import statement
from rota.supervision import supervised

#: The shortest time between two wakes, and by how much it grows while notifications go on.
WAKE_PAUSE_SECONDS: Final = 0.005
MAX_WAKE_PAUSE_SECONDS: Final = 0.015
WAKE_PAUSE_GROWTH: Final = 1.25
#: The time to the next wake if there was no listener, or if the wake failed.
NO_LISTENER_SECONDS: Final = 0.1
WAKE_FAILED_SECONDS: Final = 5.0
#: How often a listener reads the table within one statement, and how many times. The server notices within about a
#: second that a waiting client is gone.
CHECK_SECONDS: Final = 1.0
CHECKS: Final = 30
#: How a wait ends: woken, not woken in time, the named lock was free.
WOKEN: Final = None
TIMED_OUT: Final = 0
LOCK_FREE: Final = 1
#: How long a listener may take to wake itself, in its test and when it closes; and the first pause between attempts.
WAKE_TEST_SECONDS: Final = 3.0
CLOSE_SECONDS: Final = 1.0
FIRST_WAKE_SECONDS: Final = 0.01
#: The pause before a listener connects again: at first, and after repeated failures.
RECONNECT_SECONDS: Final = 1.0
MAX_RECONNECT_SECONDS: Final = 300.0
#: How often a listener tries to take a lower slot.
SLOT_CHECK_SECONDS: Final = 5.0
#: After this many empty slots in a row a waker stops.
MAX_EMPTY_SLOTS: Final = 4
MAX_SLOTS: Final = 10_000
NO_SLOT: Final = -1
#: How much of a database's name is in the names of its slots: the name of a lock has at most 64 characters. Databases
#: that share such a name wake each other needlessly.
DATABASE_LENGTH: Final = 40
#: A wait is not a slow statement, and no limit for statements is meant for it.
_SESSION: Final = "SET SESSION long_query_time = 86400, max_statement_time = 0"

#: How often to poll if no listener can be woken: soon after a notification, then less and less often.
MIN_POLL_SECONDS: Final = 0.004
MAX_POLL_SECONDS: Final = 0.2
#: The time to the next poll, as a share of the time without notifications.
POLL_SHARE: Final = 1 / 6
#: The same with a listener that can be woken; at last so seldom that the listener has always read the table before.
MIN_SLOW_POLL_SECONDS: Final = 0.05
MAX_SLOW_POLL_SECONDS: Final = CHECK_SECONDS * CHECKS + 10.0
#: How much later than the notification a wake may come.
WAKE_DELAY_SECONDS: Final = 0.5
#: How long to poll often after a notification without a wake.
POLL_OFTEN_SECONDS: Final = 600.0


async def wake_listeners(connection: MysqlConnection, prefix: str, slots: tuple[int, int], excepted: int) -> int:
    """Wake the listeners on a range of slots, except one, and return how many were woken."""
    if not connection.is_mariadb:
        return 0
    first, last = slots
    parameters = {"prefix": prefix, "first": first, "last": last, "except": excepted, "gap": MAX_EMPTY_SLOTS}
    ((woken,),) = await connection.rows(statement("wake_listeners"), parameters)
    return int(woken)


async def hold_wait_lock(connection: MysqlConnection, wait_lock: str) -> None:
    """Hold the lock that a listener waits for, for as long as the connection lasts."""
    await connection.rows(statement("hold_wait_lock"), {"wait_lock": wait_lock})


class Notifier:
    """Wakes the listeners of other processes after a notification was committed."""

    def __init__(self, readers: Pool, listener: Listener) -> None:
        self._readers = readers
        self._listener = listener
        self._is_requested = False
        self._is_under_way = False
        self._is_closing = False
        self._waking: asyncio.Task[None] | None = None
        self._pause = WAKE_PAUSE_SECONDS
        self._woke_at = float("-inf")
        self._next_at = float("-inf")

    def notify(self) -> None:
        """Start a wake soon."""
        self._is_requested = True
        if self._waking is None and not self._is_closing:
            self._waking = asyncio.get_running_loop().create_task(self._wake())

    async def close(self) -> None:
        """Send the wake that is still due."""
        self._is_closing = True
        if self._waking is not None:
            if not self._is_under_way:
                self._waking.cancel()
            await asyncio.wait([self._waking])
        if self._is_requested:
            await self._wake_once()

    async def _wake(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._is_requested and not self._is_closing:
                early = self._next_at - loop.time()
                if early > 0:
                    # No less than the resolution of the loop's clock.
                    await asyncio.sleep(max(early, 0.001))
                else:
                    await self._wake_once()
        finally:
            self._waking = None

    async def _wake_once(self) -> None:
        self._is_requested = False
        self._is_under_way = True
        pause = WAKE_FAILED_SECONDS
        try:
            # A wake is a hint: polling finds the notifications of a failed wake.
            with suppress(RotaError):
                listener = self._listener
                woken = await self._readers.run(wake_listeners, listener.prefix, (0, MAX_SLOTS), listener.slot)
                pause = self._pause_after(woken)
        finally:
            self._is_under_way = False
            self._woke_at = asyncio.get_running_loop().time()
            self._next_at = self._woke_at + pause

    def _pause_after(self, woken: int) -> float:
        """Return the pause before the next wake: short at first; under load one wake serves many notifications."""
        if not woken:
            return NO_LISTENER_SECONDS
        goes_on = asyncio.get_running_loop().time() < self._woke_at + 2 * MAX_WAKE_PAUSE_SECONDS
        self._pause = min(self._pause * WAKE_PAUSE_GROWTH, MAX_WAKE_PAUSE_SECONDS) if goes_on else WAKE_PAUSE_SECONDS
        return self._pause


class Listener:
    """A connection that waits in the server; `on_end` gets the notifications, and how the wait ended."""

    def __init__(self, readers: Pool, ours: str, on_end: Callable[[str, int | None], None]) -> None:
        self._readers = readers
        self._ours = ours
        self._on_end = on_end
        #: What the names of this database's slots begin with, and the number of our slot.
        self.prefix = f"rota-listener {readers.location.database[:DATABASE_LENGTH]} "
        self.slot = NO_SLOT
        #: The lock we wait for. The name explains the wait in the server's process list.
        self.wait_lock = f"Rota waits for work {readers.origin}"
        #: Whether the test has shown that writers can wake us.
        self.can_be_woken = False
        self._known = ""
        self._next_slot_check = float("-inf")
        self._reconnect_seconds = RECONNECT_SECONDS
        self._is_closing = False
        self._listening: asyncio.Task[None] | None = None
        self._connection: MysqlConnection | None = None

    def start(self) -> None:
        """Start to listen, unless it has started."""
        if self._listening is None and not self._is_closing:
            listening = supervised("the listener on MariaDB", self._listen_always)
            self._listening = asyncio.get_running_loop().create_task(listening)

    def reconnect(self) -> None:
        """Drop the connection, which may be half-open; another one is made soon."""
        if self._connection is not None:
            self._connection.abandon()

    async def close(self) -> None:
        """Stop listening. A connection that is dropped without being closed leaves a warning in the server's log."""
        self._is_closing = True
        if self._listening is None:
            return
        if self.can_be_woken:
            with suppress(RotaError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._wake_self(self._listening)
        self._listening.cancel()
        with suppress(asyncio.CancelledError):
            await self._listening

    async def _listen_always(self) -> None:
        while not self._is_closing:
            with suppress(RotaError, RetryTransaction, ServerRefused, ConnectionLost):
                connection = await connect(self._readers.location, "listener", autocommit=True)
                self._connection = connection
                try:
                    if connection.is_mariadb:
                        await self._listen(connection)
                except BaseException:
                    connection.abandon()
                    raise
                finally:
                    self._connection = None
                    self.can_be_woken = False
                    self.slot = NO_SLOT
                await connection.close()
                if not connection.is_mariadb:
                    return
            if not self._is_closing:
                await asyncio.sleep(self._reconnect_seconds)
                self._reconnect_seconds = min(2 * self._reconnect_seconds, MAX_RECONNECT_SECONDS)

    async def _listen(self, connection: MysqlConnection) -> None:
        loop = asyncio.get_running_loop()
        await connection.run(_SESSION)
        await self._readers.run(hold_wait_lock, self.wait_lock)
        await self._take_slot(connection, MAX_SLOTS)
        if not await self._passes_test(connection):
            return
        self.can_be_woken = True
        self._reconnect_seconds = RECONNECT_SECONDS
        while not self._is_closing:
            if loop.time() > self._next_slot_check:
                await self._take_slot(connection, self.slot)
            await self._wait(connection)

    async def _take_slot(self, connection: MysqlConnection, slot: int) -> None:
        """Take a lower slot than this one, if one is free."""
        self._next_slot_check = asyncio.get_running_loop().time() + SLOT_CHECK_SECONDS
        with suppress(StatementKilled):
            parameters = {"prefix": self.prefix, "slot": slot}
            ((self.slot,),) = await connection.rows(statement("take_listener_slot"), parameters)

    async def _wait(self, connection: MysqlConnection) -> int | None:
        """Wait until woken, unless there is something new, and return how the wait ended."""
        parameters = {
            "ours": self._ours,
            "known": self._known,
            "wait_lock": self.wait_lock,
            "seconds": CHECK_SECONDS,
            "checks": CHECKS,
        }
        try:
            with connection.allowing(CHECK_SECONDS * CHECKS + RESPONSE_SECONDS):
                ((seen, end),) = await connection.rows(statement("wait_for_notification"), parameters)
        except StatementKilled:
            # Woken while it read the table: the next statement reads the notification.
            return WOKEN
        if end == LOCK_FREE:
            raise ConnectionLost("the connection that held the listener's lock is gone")
        self._known = seen
        self._on_end(seen, end)
        return cast("int | None", end)

    async def _passes_test(self, connection: MysqlConnection) -> bool:
        """Test whether this listener can be woken."""
        self._known = ""
        await self._wait(connection)
        try:
            async with asyncio.timeout(WAKE_TEST_SECONDS):
                while await self._wait_and_wake(connection) is not WOKEN:
                    pass
        except TimeoutError:
            return False
        return True

    async def _wait_and_wake(self, connection: MysqlConnection) -> int | None:
        waiting = asyncio.get_running_loop().create_task(self._wait(connection))
        try:
            await self._wake_self(waiting)
            return await waiting
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def _wake_self(self, waiting: asyncio.Task[Any]) -> None:
        """Wake our own slot until the wait has ended: a wake before the wait has no effect."""
        pause = FIRST_WAKE_SECONDS
        while not waiting.done():
            await self._readers.run(wake_listeners, self.prefix, (self.slot, self.slot), NO_SLOT)
            await asyncio.wait([waiting], timeout=pause)
            pause *= 2


class NotificationWatch:
    """Wakes callers when other processes have made work; `ours` is a LIKE pattern of our own writers' names."""

    def __init__(self, readers: Pool, ours: str) -> None:
        self._readers = readers
        self._ours = ours
        self.listener = Listener(readers, ours, self._on_wait_end)
        self._seen = ""
        #: How often notifications of others were found.
        self.changes = 0
        self._change = asyncio.Event()
        #: Up to which change callers were notified, and when; and when the table was last read.
        self._reported = 0
        self._reported_at = float("-inf")
        self._read_at = float("-inf")
        #: When a notification was found without a wake so far, and until when to poll often because of that.
        self._found_at: float | None = None
        self._polls_often_until = float("-inf")
        self._is_open = True

    async def open(self) -> None:
        """Take the notifications so far as known."""
        self._seen = await self.read()

    async def close(self) -> None:
        self._is_open = False
        self._change.set()
        await self.listener.close()

    def note_own(self) -> None:
        """Wake the callers of this process: its own notifications are not found as changes."""
        self.changes += 1
        self._change.set()

    async def watch(self, at_most: timedelta) -> Wake:
        """Wait until another process may have made work, at most for a while; in which queues is not known."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + at_most.total_seconds()
        self.listener.start()
        # Another caller may be the one to notice a change; the count shows it to all of them.
        changes_before = self._reported
        # Notifications come in bursts. Without a pause we would query as fast as the server answers.
        await asyncio.sleep(min(self._reported_at + MIN_POLL_SECONDS - loop.time(), at_most.total_seconds()))
        while self._is_open and self.changes == changes_before and loop.time() < give_up_at:
            rest = min(self._read_at + self._poll_pause(loop.time()), give_up_at) - loop.time()
            if rest > 0:
                await self._wait_for_change(rest, changes_before)
            else:
                await self._poll()
        if self.changes != changes_before:
            self._reported = self.changes
            self._reported_at = loop.time()
            return ANY_CHANGE
        await asyncio.sleep(max(give_up_at - loop.time(), 0))
        return ()

    async def read(self) -> str:
        """Read the notifications of other writers, as one text."""
        seen: str = await self._readers.run(_notifications, self._ours)
        return seen

    async def _poll(self) -> None:
        self._read_at = asyncio.get_running_loop().time()
        self._find(await self.read())

    def _on_wait_end(self, seen: str, end: int | None) -> None:
        # The listener has read the table.
        self._read_at = asyncio.get_running_loop().time()
        if end == TIMED_OUT:
            self._find(seen)
            return
        # If there was something new without a wait, the wake came a moment before.
        self._found_at = None
        self._note(seen)

    def _find(self, seen: str) -> None:
        """Note the notifications, and the time if there is something new without a wake."""
        if self._note(seen) and self.listener.can_be_woken and self._found_at is None:
            self._found_at = self._read_at

    def _note(self, seen: str) -> bool:
        if seen == self._seen:
            return False
        self._seen = seen
        self.changes += 1
        self._change.set()
        return True

    async def _wait_for_change(self, seconds: float, changes_before: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._is_open and self.changes == changes_before:
                    self._change.clear()
                    await self._change.wait()

    def _poll_pause(self, now: float) -> float:
        """Return how long after a poll the next one is due."""
        if self._found_at is not None and now > self._found_at + WAKE_DELAY_SECONDS:
            self._found_at = None
            self._polls_often_until = now + POLL_OFTEN_SECONDS
        quiet = now - self._reported_at
        if self.listener.can_be_woken and now > self._polls_often_until:
            return min(max(quiet, MIN_SLOW_POLL_SECONDS), MAX_SLOW_POLL_SECONDS)
        return min(max(quiet * POLL_SHARE, MIN_POLL_SECONDS), MAX_POLL_SECONDS)


async def _notifications(connection: MysqlConnection, ours: str) -> Any:  # noqa: ANN401 - as the driver returns it
    ((seen,),) = await connection.rows(statement("notifications_of_others"), {"ours": ours})
    return seen

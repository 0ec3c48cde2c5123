"""Notifications between processes that share a database file: the writer notifies after a commit, others listen.

SQLite sends no notifications, but its change counter (`PRAGMA data_version`) can be read in microseconds, and on Linux
inotify reports accesses to a file. So an idle process sleeps and does not poll. There are two sources:

- **The notify file**, a small file beside the database. After a commit that made work the writer reads a byte of it;
  after one that set a time for upkeep it opens and closes it for writing. inotify reports the two differently, and
  nothing is written to the disk. (Setting the times of a file would, and sometimes takes as long as a commit.)
  Listeners notice it at once, and find what was committed in the database. A listener that is notified again and again
  pauses in between, longer the longer it goes on. Processes that never claim do not wake up for new work: they would
  take the core of the committing process or of the worker that the notification is for.
- **The write-ahead log**. Every commit writes to it: also a commit on a caller's own connection, by an older release,
  by a process that died before it notified, and one that only finishes a job. The counter moves when the commit is on
  the disk, so after a write the counter is read again and again for a while (`COUNTER_DELAYS`). Which change it was is
  unknown, so all listeners are woken, but at most every `CHECK_SECONDS`, and not that soon after a notification,
  because most commits are notified. Meanwhile the watch on the log is off: a busy log must not keep a listener busy.
  inotify reports writes in the middle of a commit, so shortly after a notification the log's time is polled instead,
  which costs less. While notifications follow each other, all listeners are woken every `LONGEST_UNCHECKED_SECONDS`, in
  case a commit among them was not notified.

Failures: where the notify file or inotify cannot be used, the counter is read every `CHECK_SECONDS`. A listener is also
woken by commits of its own process, and then queries once more than needed. What happens between two waits is seen at
the next one: the kernel keeps the events, and the counter only grows. The log is never opened here: closing it would
drop the locks that this process holds on it (POSIX locks).
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import stat
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, Final

from rota.ports.wakeup import ANY_CHANGE, EVERY_QUEUE, TIMETABLE, Topic
from rota.stores.sqlite import fork
from rota.stores.sqlite.driver import DatabaseBusy, DatabaseFailed, SqliteConnection
from rota.stores.sqlite.fork import CLOSED, DescriptorOwner

_IN_ACCESS: Final = 0x1
_IN_MODIFY: Final = 0x2
_IN_CLOSE_WRITE: Final = 0x8
#: Never reported while the file is open: for a watch that is switched off.
_IN_DELETE_SELF: Final = 0x400
#: The kernel dropped events: anything may have happened.
_IN_Q_OVERFLOW: Final = 0x4000
#: struct inotify_event: watch, mask, cookie, length of a name, which only events of folders have.
_EVENT: Final = struct.Struct("iIII")
#: The notify file's content: a read of an empty file is not reported.
_CONTENT: Final = b"."
#: Reading must not update the access time. Only the owner of a file may ask for that; for others it is written once a
#: day.
_NO_ACCESS_TIME: Final = getattr(os, "O_NOATIME", 0)

#: How long after a notification the log is polled instead of watched, and how often.
POLL_LOG_SECONDS: Final = 0.5
LOG_POLL_INTERVAL_SECONDS: Final = 0.02
#: How long after a write to the log to react: the commit is not on the disk yet, and most are notified when they are.
COMMIT_SECONDS: Final = 0.002
#: Without inotify how often the counter is read; with it how often at most an unknown change is reported.
CHECK_SECONDS: Final = 0.02
#: How long notifications may defer reading the counter.
LONGEST_UNCHECKED_SECONDS: Final = 0.2
#: The delays before each read of the counter after a write to the log. A slower disk is noticed at the next wait.
COUNTER_DELAYS: Final = (0.002, 0.002, 0.004, 0.008, *(CHECK_SECONDS,) * 10)
#: The least time between two reports, and its growth while they go on. The first is the duration of a claim: a listener
#: that returned sooner would occupy the event loop when the claim's answer arrives.
SHORTEST_PAUSE_SECONDS: Final = 0.003
LONGEST_PAUSE_SECONDS: Final = 0.01
PAUSE_GROWTH: Final = 1.5
#: How soon after a pause the next report must follow for the pause to grow.
BUSY_SECONDS: Final = 0.003
NOWHERE: Final[frozenset[Topic]] = frozenset()


def notify_file_of(path: str) -> str:
    return f"{path}-notify"


class Notifier(DescriptorOwner):
    """Notifies other processes after a commit."""

    def __init__(self, path: str) -> None:
        # The file is opened at the first notification of work and stays open: opening it takes four times as long.
        super().__init__()
        self._file = notify_file_of(path)

    def notify(self, connection: SqliteConnection) -> None:
        """Notify of new work and new times on a connection. Errors of the system are ignored: it is only a hint."""
        try:
            if connection.has_made_work:
                connection.has_made_work = False
                if self._descriptor == CLOSED:
                    self._descriptor = _open_for_notifying(self._file)
                if not os.pread(self._descriptor, 1, 0):
                    # The file was emptied, and reading it is not reported.
                    self.close()
            if connection.has_set_times:
                connection.has_set_times = False
                os.close(os.open(self._file, os.O_WRONLY))
        except OSError as error:
            # Not repeated at the next commit, which may have nothing to report.
            connection.has_made_work = connection.has_set_times = False
            # Without a number it was raised by a signal handler (a timeout): the caller expects it.
            if error.errno is None:
                raise


def _open_for_notifying(file: str) -> int:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | _NO_ACCESS_TIME)
    except PermissionError:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not os.pread(descriptor, 1, 0):
        # It was emptied. Never written through a link, which may lead to another file.
        with suppress(OSError):
            empty = os.open(file, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            os.write(empty, _CONTENT)
            os.close(empty)
    return descriptor


def _create_notify_file(file: str, database: os.stat_result) -> bool:
    """Create the notify file for all users with write access to the database; return whether it is usable."""
    with suppress(FileExistsError):
        created = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, stat.S_IMODE(database.st_mode))
        try:
            # As SQLite does with its log: independent of our umask, and of which user happened to be first.
            os.fchmod(created, stat.S_IMODE(database.st_mode))
            if os.geteuid() == 0:
                os.fchown(created, database.st_uid, database.st_gid)
            os.write(created, _CONTENT)
        finally:
            os.close(created)
    return stat.S_ISREG(os.stat(file).st_mode)  # noqa: PTH116 - a text will do


class InotifyEvents:
    """inotify events of the notify file and of the log. Events that come between two waits are kept."""

    def __init__(self, path: str) -> None:
        #: How many notifications of work (once `enable_work` was called) and of times have come.
        self.work = 0
        self.times = 0
        #: Whether the log was written to since the listener reset this.
        self.is_log_written = False
        self._log = os.fsencode(f"{path}-wal")
        self._reports_work = self._reports_log = self._is_log_watched = False
        self._poll_log_until = -inf
        self._log_stamp = self.log_stamp()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: set[asyncio.Event] = set()
        self._system: Any = None
        self._descriptor: int | None = None
        if sys.platform == "linux":
            self._open(path)

    @contextmanager
    def subscribed(self) -> Iterator[asyncio.Event | None]:
        """Yield an event that is set at each report; None where inotify cannot be used, or on a second event loop."""
        loop = asyncio.get_running_loop()
        if self._descriptor is None or (self._listeners and self._loop is not loop):
            yield None
            return
        if not self._listeners:
            self._loop = loop
            loop.add_reader(self._descriptor, self._read_events)
            # Earlier events count now, not at the loop's next iteration.
            self._read_events()
        event = asyncio.Event()
        self._listeners.add(event)
        try:
            yield event
        finally:
            self._listeners.discard(event)
            if not self._listeners and self._descriptor is not None:
                loop.remove_reader(self._descriptor)
                # The kernel merges equal events only; notifications and writes in turns would fill its queue.
                self.report_log(enabled=False)

    def enable_work(self) -> None:
        """Report new work too, from now on."""
        self._reports_work = True

    def report_log(self, *, enabled: bool) -> None:
        """Report the next write to the log, or notifications only. Earlier writes are not reported."""
        if self._descriptor is None or enabled == self._reports_log:
            return
        self._reports_log = enabled
        if enabled:
            self._log_stamp = self.log_stamp()
            self._observe_log()
        else:
            self._set_timer(None)
            self._watch_log(enabled=False)

    def _observe_log(self) -> None:
        """Poll the log shortly after a notification, otherwise have inotify watch it."""
        assert self._loop is not None
        if self._loop.time() < self._poll_log_until:
            self._check_log_after(LOG_POLL_INTERVAL_SECONDS)
            return
        self._watch_log(enabled=True)
        # What was written just before.
        self._check_log()

    def _check_log(self) -> None:
        if self.log_stamp() != self._log_stamp:
            self._report_log_write()
        elif not self._is_log_watched:
            self._observe_log()

    def _report_log_write(self) -> None:
        self.report_log(enabled=False)
        self.is_log_written = True
        self._wake_listeners()

    def _watch_log(self, *, enabled: bool) -> None:
        if enabled != self._is_log_watched:
            self._is_log_watched = enabled
            self._add_watch(self._log, _IN_MODIFY if enabled else _IN_DELETE_SELF)

    def _check_log_after(self, seconds: float) -> None:
        """Check the log after a while instead of watching it."""
        self._watch_log(enabled=False)
        self._set_timer(seconds)

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if seconds is not None and self._loop is not None:
            self._timer = self._loop.call_later(seconds, self._check_log)

    def log_stamp(self) -> tuple[int, int]:
        """Return time of the last write and size of the log."""
        try:
            log = os.stat(self._log)  # noqa: PTH116 - called often
        except OSError:
            return 0, 0
        return log.st_mtime_ns, log.st_size

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        self._set_timer(None)
        if self._listeners and self._loop is not None:
            self._loop.remove_reader(descriptor)
        os.close(descriptor)

    def _read_events(self) -> None:
        if self._descriptor is None:
            return
        try:
            events = os.read(self._descriptor, 65_536)
        except BlockingIOError:
            return
        is_notified = False
        for _, mask, _, _ in _EVENT.iter_unpack(events):
            if mask & _IN_MODIFY and self._is_log_watched:
                self._check_log_after(COMMIT_SECONDS)
            if mask & (_IN_CLOSE_WRITE | _IN_ACCESS) and self._loop is not None:
                self._poll_log_until = self._loop.time() + POLL_LOG_SECONDS
            if not self._reports_work and mask & _IN_ACCESS and self._reports_log:
                # That write to the log was new work, which this process does not claim.
                self._check_log_after(LOG_POLL_INTERVAL_SECONDS)
            if self._reports_work and mask & (_IN_ACCESS | _IN_Q_OVERFLOW):
                self.work += 1
                is_notified = True
            if mask & (_IN_CLOSE_WRITE | _IN_Q_OVERFLOW):
                self.times += 1
                is_notified = True
        if is_notified:
            self._wake_listeners()

    def _wake_listeners(self) -> None:
        for event in self._listeners:
            event.set()

    def _open(self, path: str) -> None:
        try:
            if not _create_notify_file(notify_file_of(path), os.stat(path)):  # noqa: PTH116 - a text will do
                return
            self._system = ctypes.CDLL(None, use_errno=True)
            descriptor = self._system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError):
            return
        if descriptor < 0:
            return  # too many inotify instances on this host; the counter is polled instead
        self._descriptor = int(descriptor)
        notifications = self._add_watch(os.fsencode(notify_file_of(path)), _IN_CLOSE_WRITE | _IN_ACCESS)
        if notifications < 0 or self._add_watch(self._log, _IN_DELETE_SELF) < 0:
            self.close()

    def _add_watch(self, path: bytes, mask: int) -> int:
        return int(self._system.inotify_add_watch(self._descriptor, path, mask))


class Listener:
    """Waits for commits of other processes to one database file."""

    def __init__(self, connection: SqliteConnection, path: str) -> None:
        self.connection = connection
        self.lock = threading.Lock()
        fork.register(self)
        self._events = InotifyEvents(path)
        self._last_counter = self._counter()
        self._log_stamp = self._events.log_stamp()
        self._changes = 0
        self._reported_at = -CHECK_SECONDS
        #: Since when notifications have deferred reading the counter; infinity if they have not.
        self._unchecked_since = inf
        self._pause = SHORTEST_PAUSE_SECONDS

    async def wait(self, seconds: float) -> frozenset[Topic]:
        """Wait until another process may have committed, at most for a while; return the topics that may be new."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + seconds
        # Another waiter of this process may be the one to notice; the counts show it to all of them.
        before = self._counts()
        await asyncio.sleep(min(self._reported_at + self._pause - loop.time(), seconds))
        delays = iter(COUNTER_DELAYS)
        with self._events.subscribed() as event:
            while not (topics := self._topics_since(before, loop.time())):
                left = give_up_at - loop.time()
                if left <= 0:
                    return NOWHERE
                resting = self._reported_at + CHECK_SECONDS - loop.time()
                if event is None:
                    await asyncio.sleep(min(left, CHECK_SECONDS))
                elif resting > 0:
                    await _wait_for(event, min(left, resting))
                elif not self._events.is_log_written:
                    await _wait_for(event, left)
                    delays = iter(COUNTER_DELAYS)
                elif (delay := next(delays, None)) is None:
                    self._events.is_log_written = False
                else:
                    await _wait_for(event, min(left, delay))
        self._note_report(loop.time())
        return topics

    def enable_work(self) -> None:
        """Report new work at once, from now on. Until then it is a commit like any other."""
        self._events.enable_work()

    def close(self) -> None:
        """Stop listening; the connection is closed by its owner."""
        self._events.close()

    def close_after_fork(self) -> None:
        """Close the connection only: the inotify descriptor belongs to the parent's event loop."""
        self.connection.close()

    def _counts(self) -> tuple[int, int, int]:
        return self._events.work, self._events.times, self._changes

    def _topics_since(self, before: tuple[int, int, int], now: float) -> frozenset[Topic]:
        work, times, changes = before
        notified = (self._events.work != work, self._events.times != times)
        if not any(notified):
            # Only here: a notified commit moves the counter too, and would wake all listeners.
            may_check = now >= self._reported_at + CHECK_SECONDS
            self._events.report_log(enabled=may_check and not self._events.is_log_written)
            if may_check:
                self._check_counter()
        elif now >= self._unchecked_since + LONGEST_UNCHECKED_SECONDS:
            self._check_counter()
        else:
            self._unchecked_since = min(self._unchecked_since, now)
        if self._changes != changes:
            return ANY_CHANGE
        return frozenset(topic for topic, is_new in zip((EVERY_QUEUE, TIMETABLE), notified, strict=True) if is_new)

    def _check_counter(self) -> None:
        self._unchecked_since = inf
        # Before the counter: what is written after it is noticed the next time.
        stamp, self._log_stamp = self._log_stamp, self._events.log_stamp()
        counter = self._counter()
        if counter is not None and counter != self._last_counter:
            self._last_counter = counter
            self._changes += 1
            self._events.is_log_written = False
        elif stamp != self._log_stamp:
            # Written while the watch was off, and not yet on the disk: no event will follow.
            self._events.is_log_written = True

    def _note_report(self, now: float) -> None:
        """Note a report; frequent reports make the pause before the next one longer."""
        is_busy = now - self._reported_at < 2 * self._pause + BUSY_SECONDS
        self._pause = min(self._pause * PAUSE_GROWTH, LONGEST_PAUSE_SECONDS) if is_busy else SHORTEST_PAUSE_SECONDS
        self._reported_at = now

    def _counter(self) -> int | None:
        """Read the change counter; None while another process recovers the log, or if it cannot be read."""
        try:
            with self.lock:
                ((version,),) = self.connection.rows("PRAGMA data_version")
        except (DatabaseBusy, DatabaseFailed):
            return None
        return int(version)


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    # Not asyncio.wait_for: on Python 3.11 it swallows a cancellation that arrives together with the event.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()

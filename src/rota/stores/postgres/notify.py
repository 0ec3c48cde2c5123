"""Notifications between processes over LISTEN and NOTIFY: a hint, never relied upon.

Sending (`Notifier`). After a write, one notification is sent, and all that is written while it is on its way shares the
next one. It is sent after the commit, since commits that notify wait for each other. Only the submission of a single
job and the promotion of due jobs attach it to their own commit, if the last one is old enough, together with all that
waits to be sent: that saves the listener a round trip, and a caller that submits one job after the other the cost of a
separate statement, which is more than a tenth of its time. A notification names the lanes and priorities of new jobs
(see `low_water`) and its sender, which need not be woken; if it announces one job, it has a number, by which the
listeners agree which worker goes first.

Listening (`Listener`). Each store listens on one connection, made when `watch` is first called. Notifications of new
jobs only go to a channel of their own, to which only processes listen that claim: a scheduler, or a process that waits
for the end of a job, would be woken by every job. Of a job that is handed over to a claim (see `handoff`), only that
claim's process is notified, and processes that subscribe to every job. Channels belong to the database: stores in
several schemas of one database wake each other, which costs one query each.

A listener may be disconnected without knowing it: behind a pooler, or when the other end has vanished. So it sends a
probe to itself now and then and waits for it. While it cannot listen, `watch` returns every now and then. When
listening begins again, notifications may have been missed, and all watchers are woken once.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from datetime import timedelta
from itertools import count, islice
from time import monotonic
from typing import Annotated, Any, Final, NamedTuple, cast

import msgspec

from rota.core.errors import RotaError
from rota.ports.wakeup import ANY_CHANGE, EVERY_QUEUE, LEASED_AT_ONCE, TIMETABLE, ClaimTopic, OnWake, SingleJob, Topic
from rota.stagger import HEAD_START_SECONDS
from rota.stores.handoff import decode_handoff
from rota.stores.postgres.connection import AWAY, CONNECT_SECONDS, AsyncpgConnection
from rota.stores.postgres.database import Database
from rota.stores.postgres.handoff import Address, OpenClaims, new_address
from rota.stores.postgres.lanes import Place
from rota.stores.postgres.session import Session
from rota.supervision import supervised

CHANNEL: Final = "rota"
WORK_CHANNEL: Final = "rota_work"
#: For processes that also subscribe to jobs that are handed over to a claim.
HANDED_OVER_CHANNEL: Final = "rota_brought"
#: The place in a notification that says that something has a time (a run time, an expiry).
TIMES: Final[Place] = ("\0timetable", "", 0)
#: The place if it is not known which queue has work.
ANYWHERE: Final[Place] = ("\0every queue", "", 0)
#: The topics of places that are no queues.
_TOPICS: Final[dict[str, Topic]] = {TIMES[0]: TIMETABLE, ANYWHERE[0]: EVERY_QUEUE}


def somewhere(queue: str) -> Place:
    """Return the place that stands for all lanes of a queue."""
    return queue, "", 0


#: The places of a notification if it is not known where something changed.
_ALL_PLACES: Final = (ANYWHERE, TIMES)
#: Prefix of the marks of senders that announce times too. Senders of an earlier release do not.
SAYS_TIMES: Final = "t"
#: Separates the mark of a sender from the number of a notification. To an earlier release both are a sender.
NUMBERED: Final = "#"
#: Prefix of a probe, which a listener sends to itself.
PROBE: Final = "?"
#: The first number of a sender is drawn from this many.
MANY: Final = 2**31
#: A notification may have 8000 bytes.
LONGEST: Final = 7900
#: The pause between notifications, and its growth while they come as fast as they may: with many commits, one for many
#: jobs saves the server work; with a hundred jobs a second, holding one back only delays a job.
PAUSE_SECONDS: Final = 0.001
LONGEST_PAUSE_SECONDS: Final = 0.015
PAUSE_GROWTH: Final = 1.25
#: For how much longer a notification waits for a commit to which it can be attached.
GRACE_SECONDS: Final = 0.001
#: How often `watch` returns while it cannot listen.
POLL_SECONDS: Final = 0.5
#: How much longer than its limit the first watch may take, until listening has begun.
BEGIN_SECONDS: Final = 3.0
#: How often a probe is sent, and how long its return may take.
PROBE_SECONDS: Final = 15.0
ECHO_SECONDS: Final = 3.0
#: How many notifications are remembered for watchers that come later.
REMEMBERED: Final = 100
#: Pause before the next try to listen.
RETRY_SECONDS: Final = 5.0


#: Reads a notification: the mark of its sender, perhaps with a number, and places. Any role may send one: a priority
#: beyond the column's range would become a low-water mark that no statement takes.
_SMALL: Final = 2**15
_DECODER: Final = msgspec.json.Decoder(list[str | tuple[str, str, Annotated[int, msgspec.Meta(ge=-_SMALL, lt=_SMALL)]]])
#: Parameters of a statement that sends no notification.
NO_NOTIFICATION: Final = (None, None)


class Notification(NamedTuple):
    """A text for a channel, and whether it announces one job and nothing else."""

    channel: str
    text: str
    announces_one: bool = False


async def notify(session: Session, channel: str, text: str) -> None:
    await session.rows("notify", channel, text)


class Notifier:
    """Sends notifications to other processes."""

    def __init__(self, database: Database, mark: str) -> None:
        self._database = database
        self._mark = mark
        #: The places to be sent, and those attached to a commit that is not done yet.
        self._pending: set[Place] = set()
        self._attached: set[Place] = set()
        self._attached_at: float | None = None
        #: Whether a commit with attached places changed nothing and so sent nothing: they are not attached again.
        self._was_returned = False
        self._sender: asyncio.Task[None] | None = None
        self._is_sending = False
        self._is_closing = False
        self._sent_at = float("-inf")
        self._pause = PAUSE_SECONDS
        # Not from the beginning: many senders may send one each.
        self._numbers = count(secrets.randbelow(MANY))

    def attach(self, places: Collection[Place], *, is_one: bool = False) -> Notification | None:
        """Return a notification to send with a commit, if the last one is old enough; call `committed` in any case.

        It is a `SingleJob` if it announces one job and nothing else.
        """
        now = monotonic()
        is_busy = self._is_sending or self._attached_at is not None or self._was_returned
        if is_busy or now < self._sent_at + self._pause:
            return None
        self._attached_at = now
        self._attached, self._pending = self._pending, set()
        if not is_one or self._attached:
            return _notification(self._mark, self._attached.union(places))
        return _notification(f"{self._mark}{NUMBERED}{next(self._numbers)}", places, announces_one=True)

    def committed(self, notification: Notification | None, places: Iterable[Place], *, has_changed: bool) -> None:
        """Notify of what a commit did not send by itself: if it changed nothing, its notification was not sent."""
        if notification is None:
            if has_changed:
                self.notify_soon(places)
            return
        attached, self._attached, self._attached_at = self._attached, set(), None
        if has_changed:
            self._note_sent()
        elif attached:
            self._was_returned = True
            self.notify_soon(attached)

    def notify_soon(self, places: Iterable[Place] = _ALL_PLACES) -> None:
        """Have a notification sent soon that names where jobs were stored; without places, that it may be anywhere."""
        self._pending.update(places)
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send_pending())

    async def close(self) -> None:
        """Send what is pending."""
        self._is_closing = True
        if self._sender is not None:
            if not self._is_sending:
                self._sender.cancel()
            await asyncio.wait([self._sender])
        if self._pending or self._attached:
            await self._send()

    async def _send_pending(self) -> None:
        try:
            while (self._pending or self._attached) and not self._is_closing:
                early = self._next_at() - monotonic()
                if early > 0:
                    # No less than the resolution of the loop's clock.
                    await asyncio.sleep(max(early, 0.001))
                else:
                    await self._send()
        finally:
            self._sender = None

    def _next_at(self) -> float:
        """Return when to send: the first at once; under load, one for many."""
        at = self._sent_at + self._pause
        if self._was_returned:
            return at
        if self._attached_at is not None:
            # Its commit may wait for a lock. The attached places of others do not wait for that: they are sent twice.
            return max(at, self._attached_at + LONGEST_PAUSE_SECONDS)
        return at + GRACE_SECONDS

    async def _send(self) -> None:
        self._is_sending = True
        notification = _notification(self._mark, self._pending | self._attached)
        self._pending, self._attached, self._was_returned = set(), set(), False
        self._note_sent()
        try:
            # Only a hint; and if the server is away, listeners notice that themselves.
            with suppress(RotaError):
                await self._database.alone(notify, notification.channel, notification.text)
        finally:
            self._is_sending = False

    def _note_sent(self) -> None:
        now = monotonic()
        is_steady = now < self._sent_at + 2 * (self._pause + GRACE_SECONDS)
        self._pause = min(self._pause * PAUSE_GROWTH, LONGEST_PAUSE_SECONDS) if is_steady else PAUSE_SECONDS
        self._sent_at = now


def _notification(mark: str, places: Collection[Place], *, announces_one: bool = False) -> Notification:
    """Write a notification: its sender, and where jobs were stored, unless that is too long."""
    text = json.dumps([mark, *sorted(places)])
    if len(text) >= LONGEST:
        return Notification(CHANNEL, json.dumps([mark]))
    return Notification(CHANNEL if TIMES in places else WORK_CHANNEL, text, announces_one)


class Listener:
    """Receives notifications; `note_stored` is called with the places of new jobs, `open_claims` gets the answers."""

    def __init__(
        self, database: Database, mark: str, note_stored: Callable[[Iterable[Place]], None], open_claims: OpenClaims
    ) -> None:
        self._database = database
        self._note_stored = note_stored
        self._open_claims = open_claims
        #: How often watchers were woken since the last claim, and lane and time of the job announced last, if it was
        #: one.
        self._wakes_since_claim = 0
        self._announced_at = 0.0
        self._announced: tuple[str, str] | None = None
        self._mark = mark
        self._probe = f"{PROBE}{mark}"
        #: How many wake-ups there were, how many of them `wait` has returned, and the places of the last ones.
        self._count = 0
        self._returned = 0
        self._recent: deque[frozenset[Topic]] = deque(maxlen=REMEMBERED)
        self._change = asyncio.Event()
        #: Watchers that are called at once.
        self._callbacks: list[OnWake] = []
        self._echo = asyncio.Event()
        self._disconnected = asyncio.Event()
        self._disconnected.set()
        self._wants_work = False
        self._wants_handed_over = False
        #: Set when the connection must be checked before the next probe.
        self._attention = asyncio.Event()
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connection: AsyncpgConnection | None = None
        database.on_no_response = self._reconnect

    @property
    def is_listening(self) -> bool:
        return not self._disconnected.is_set()

    def listen_for_work(self, *, also_handed_over: bool = False) -> None:
        """Listen for new jobs from now on; also for those that are handed over to a claim."""
        if not self._wants_work or (also_handed_over and not self._wants_handed_over):
            self._wants_work = True
            self._wants_handed_over |= also_handed_over
            self._attention.set()

    def take_announced(self) -> tuple[str, str] | None:
        """Return queue and type of the one job announced since the last claim, if it was one.

        Only while it is fresh: later, another worker has claimed it.
        """
        is_fresh = self._wakes_since_claim == 1 and monotonic() < self._announced_at + HEAD_START_SECONDS
        announced = self._announced if is_fresh else None
        self._wakes_since_claim, self._announced = 0, None
        return announced

    async def wait(self, at_most: timedelta, on_wake: OnWake | None = None) -> frozenset[Topic]:
        """Wait until something may have changed since the last time, at most for a while, and return the places.

        While it listens, `on_wake` is called instead, directly from the notification: to wake a task takes longer.
        """
        is_listening = await self._begin()
        seen = self._returned
        try:
            async with asyncio.timeout(at_most.total_seconds()):
                if not is_listening:
                    await asyncio.sleep(POLL_SECONDS)
                    return ANY_CHANGE
                if on_wake is not None and self._count == seen:
                    await self._call_back(on_wake)
                    # The callback got all there was. The listener is disconnected now: the next watch polls.
                    return frozenset()
                while self._count == seen:
                    self._change.clear()
                    await self._change.wait()
        except TimeoutError:
            return frozenset()
        self._returned = self._count
        return self._since(seen)

    async def _call_back(self, on_wake: OnWake) -> None:
        """Have a callback called for each wake-up, until its watcher stops waiting or the listener is disconnected."""
        self._callbacks.append(on_wake)
        try:
            await self._disconnected.wait()
        finally:
            self._callbacks.remove(on_wake)

    def _since(self, seen: int) -> frozenset[Topic]:
        """Return the topics of all wake-ups after a number of them."""
        missed = self._count - seen
        return (
            ANY_CHANGE
            if missed > len(self._recent)
            else frozenset[Topic]().union(*islice(reversed(self._recent), missed))
        )

    async def _begin(self) -> bool:
        """Start to listen, and return whether that works."""
        if self._task is None:
            listening = supervised("the listener on PostgreSQL", self._listen_always)
            self._task = asyncio.get_running_loop().create_task(listening)
            # The first time only: later, a watcher need not wait for a server that is away.
            with suppress(TimeoutError):
                async with asyncio.timeout(BEGIN_SECONDS):
                    await self._ready.wait()
        return self.is_listening

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _listen_always(self) -> None:
        while True:
            with suppress(RotaError, *AWAY):
                connection = self._connection = await self._database.connector()
                try:
                    await self._listen(connection)
                finally:
                    self._connection = None
                    connection.terminate()
            self._open_claims.address = None
            self._disconnected.set()
            self._wake()
            self._ready.set()
            await asyncio.sleep(RETRY_SECONDS)

    def _reconnect(self) -> None:
        """Drop the connection, which may be half-open: a job could be handed over to a claim that misses it."""
        if self._connection is not None:
            self._connection.terminate()

    async def _listen(self, connection: AsyncpgConnection) -> None:
        if self._database.connector.is_pooled:
            return
        await _listen_to(connection, CHANNEL, self._on_notification)
        connection.add_termination_listener(self._on_termination)
        has_work = has_handed_over = False
        self._attention.clear()
        while not connection.is_closed() and await self._receives_probe():
            is_new = not self.is_listening
            if self._wants_work and not has_work:
                address = await self._take_address(connection)
                await _listen_to(connection, WORK_CHANNEL, self._on_notification)
                self._open_claims.address = address
                has_work = is_new = True
            if self._wants_handed_over and not has_handed_over:
                await _listen_to(connection, HANDED_OVER_CHANNEL, self._on_handed_over)
                has_handed_over = is_new = True
            if is_new:
                self._disconnected.clear()
                # What was written before was missed.
                self._wake()
                self._ready.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(PROBE_SECONDS):
                    await self._attention.wait()
            # Not before the wait: the connection may have ended during the probe.
            self._attention.clear()

    async def _take_address(self, connection: AsyncpgConnection) -> Address | None:
        """Take an advisory lock that shows submitters that this connection listens; return the address."""
        address = new_address()
        async with asyncio.timeout(CONNECT_SECONDS):
            is_free = await connection.fetchval("SELECT pg_try_advisory_lock($1)", address.sign)
        await _listen_to(connection, address.channel, self._on_answer)
        return address if is_free else None

    async def _receives_probe(self) -> bool:
        self._echo.clear()
        await self._database.alone(notify, CHANNEL, self._probe)
        try:
            async with asyncio.timeout(ECHO_SECONDS):
                await self._echo.wait()
        except TimeoutError:
            return False
        return True

    def _on_notification(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:  # noqa: ANN401 - asyncpg's
        text = str(payload)
        if text.startswith(PROBE):
            if text == self._probe:
                self._echo.set()
            return
        try:
            wake = self._read(text)
        except (msgspec.DecodeError, ValueError, TypeError, AttributeError):
            # Not sent by Rota, or by a later release: something has changed.
            self._announced = None
            wake = ANY_CHANGE
        if wake:
            self._wake(wake)

    def _on_answer(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:  # noqa: ANN401 - asyncpg's
        """Wake the worker whose claim was answered, and no other."""
        try:
            answer = decode_handoff(str(payload))
        except msgspec.DecodeError:
            # Of a later release: a claim finds it.
            self._wake()
            return
        if self._open_claims.deliver(answer):
            self._publish(frozenset({ClaimTopic(answer.claim_id)}))

    def _on_handed_over(self, *_: object) -> None:
        """Wake watchers that subscribe to every job. Workers are not woken: the job is leased already."""
        self._publish(frozenset({LEASED_AT_ONCE}))

    def _read(self, text: str) -> frozenset[Topic]:
        """Return the topics of a notification; none if it is our own."""
        sender, *places = cast("tuple[str, *tuple[Place, ...]]", _DECODER.decode(text))
        mark, _, number = sender.partition(NUMBERED)
        if mark == self._mark:
            return frozenset()
        self._announced = None
        self._note_stored(places)
        topics = frozenset([_TOPICS.get(queue, queue) for queue, _, _ in places]) or ANY_CHANGE
        if number:
            topics |= {SingleJob(int(number))}
            if len(places) == 1:
                self._announced, self._announced_at = places[0][:2], monotonic()
        return topics if mark.startswith(SAYS_TIMES) else topics | ANY_CHANGE

    def _on_termination(self, _connection: Any) -> None:  # noqa: ANN401 - asyncpg's
        self._open_claims.address = None
        self._echo.set()
        self._attention.set()

    def wake_own(self) -> None:
        """Wake the callers of this process: its own notifications are not taken for news."""
        self._publish(ANY_CHANGE)

    def _wake(self, wake: frozenset[Topic] = ANY_CHANGE) -> None:
        self._wakes_since_claim += 1
        self._publish(wake)

    def _publish(self, wake: frozenset[Topic]) -> None:
        self._count += 1
        self._recent.append(wake)
        if self._callbacks:
            self._returned = self._count
            for on_wake in tuple(self._callbacks):
                on_wake(wake)
        self._change.set()


async def _listen_to(connection: AsyncpgConnection, channel: str, callback: Callable[..., None]) -> None:
    async with asyncio.timeout(CONNECT_SECONDS):
        await connection.add_listener(channel, callback)

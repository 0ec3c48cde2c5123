"""Hearing of what other processes do, over LISTEN and NOTIFY. A hint, never relied upon.

Whoever has written rings: one notice goes out, and all that is written while it is on its way shares the next one. It
is sent after the commit and not with it, since commits that notify wait for each other. Only who submits a single job,
or promotes what is due, takes the notice along if the last one is old enough, with all that others wanted told: that
spares whoever waits for it a round trip, and a caller who submits one job after the other the cost of a statement now
and then, which is more than a tenth of its time. It tells in which lanes and with which priority jobs were stored, see
`floors`, and who need not be woken; and if it was one job, a number of its own, by which those who hear it agree who
goes first. Each store listens on one connection, made when somebody first watches. What tells of work and of nothing
else goes by a channel of its own, to which only those listen who have ever asked for work: a scheduler, or whoever
waits for the end of a job, would be woken by every job, and be in the way of who begins it. Of a job that is somebody's
as soon as it is stored, that one alone is told, see `open_claims`, and who wants to hear of every job.

A listener can be deaf without knowing it: behind a pooler, or when the other end has vanished without a word. So it
sends itself a notice now and then and sees whether it comes. While nothing can be heard, watching means waking up every
now and then. Whenever listening begins anew, something may have been missed, and everybody is woken once.
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
from rota.core.precedence import HEAD_START_SECONDS
from rota.ports.places import ANYWHERE, BROUGHT, EVERY_QUEUE, TIMETABLE, answer_to, numbered
from rota.ports.store import Heed
from rota.stores.open_claims import read_answer
from rota.stores.postgres.connecting import CONNECT_SECONDS, Connection
from rota.stores.postgres.database import Database
from rota.stores.postgres.faults import AWAY
from rota.stores.postgres.lanes import Place
from rota.stores.postgres.open_claims import Address, OpenClaims, new_address
from rota.stores.postgres.session import Session
from rota.supervision import supervised

CHANNEL: Final = "rota"
WORK_CHANNEL: Final = "rota_work"
#: On which those are told of a job that is somebody's already who want to hear of every one.
BROUGHT_CHANNEL: Final = "rota_brought"
#: What a notice says when something has a time, and what it says when jobs of any type may be in a queue.
TIMES: Final[Place] = (TIMETABLE, "", 0)


def somewhere(queue: str) -> Place:
    """Give the place that stands for all lanes of a queue."""
    return queue, "", 0


#: What a notice says when nobody knows where: also one that takes others along, which do.
_ANYWHERE: Final = (somewhere(EVERY_QUEUE), TIMES)
#: How the mark of a sender begins that says of times, too. One of an earlier release says in which queue a job is, and
#: not whether it has a time.
SAYS_TIMES: Final = "t"
#: What stands between the mark of a sender and the number of a notice. To an earlier release both are a sender.
NUMBERED: Final = "#"
#: How a notice begins that is meant for its sender.
PROBE: Final = "?"
#: From how many numbers a sender draws the first of its own.
MANY: Final = 2**31
#: A notice may have 8000 bytes.
LONGEST: Final = 7900
#: How long after a notice the next one is sent at the earliest, and by how much longer each time while notices come as
#: fast as they may: with many who commit, one for many jobs spares the server; with a hundred jobs a second, to hold a
#: notice back only delays a job.
PAUSE_SECONDS: Final = 0.001
LONGEST_PAUSE_SECONDS: Final = 0.015
PAUSE_GROWTH: Final = 1.25
#: For how much longer a notice waits for somebody to take it along.
GRACE_SECONDS: Final = 0.001
#: How often to wake up when nothing can be heard.
POLL_SECONDS: Final = 0.5
#: How long a first watch may take longer than it was meant to, until listening has begun.
BEGIN_SECONDS: Final = 3.0
#: How often to make sure that we still hear, and how long to wait for our own voice.
PROBE_SECONDS: Final = 15.0
ECHO_SECONDS: Final = 3.0
#: How many notices to remember for whoever was not listening when they came.
REMEMBERED: Final = 100
#: How long to wait before listening is tried again.
DEAF_SECONDS: Final = 5.0


#: Reads a notice: the mark of its sender, perhaps with a number, and places. Anybody may send one: a priority that no
#: column holds would become a floor that no statement takes.
_SMALL: Final = 2**15
_NOTICES: Final = msgspec.json.Decoder(list[str | tuple[str, str, Annotated[int, msgspec.Meta(ge=-_SMALL, lt=_SMALL)]]])
#: What statements take in place of a channel and a text where nothing is to be told.
SILENCE: Final = (None, None)


class Notice(NamedTuple):
    """What is told on which channel, and whether that is one job and nothing else."""

    channel: str
    text: str
    tells_one: bool = False


async def notify(session: Session, channel: str, text: str) -> None:
    """Send a notice."""
    await session.rows("notify", channel, text)


class Bell:
    """Tells the others that something has changed."""

    def __init__(self, database: Database, mark: str) -> None:
        self._database = database
        self._mark = mark
        #: What is to be told, and what somebody's commit has taken along and not yet brought home.
        self._places: set[Place] = set()
        self._riding: set[Place] = set()
        self._riding_since: float | None = None
        #: Whether somebody came back without having told anything: then nobody else takes it along.
        self._has_bounced = False
        self._sending: asyncio.Task[None] | None = None
        self._is_on_its_way = False
        self._is_closing = False
        self._sent_at = float("-inf")
        self._pause = PAUSE_SECONDS
        # Not from the beginning: many senders may send one each.
        self._numbers = count(secrets.randbelow(MANY))

    def notice(self, places: Collection[Place], *, is_one: bool = False) -> Notice | None:
        """Give a notice to take along with a commit, if the last one is old enough; `follow` the commit in any case.

        It is numbered if it tells of one job and of nothing else.
        """
        now = monotonic()
        is_taken = self._is_on_its_way or self._riding_since is not None or self._has_bounced
        if is_taken or now < self._sent_at + self._pause:
            return None
        self._riding_since = now
        self._riding, self._places = self._places, set()
        if not is_one or self._riding:
            return _notice(self._mark, self._riding.union(places))
        return _notice(f"{self._mark}{NUMBERED}{next(self._numbers)}", places, tells_one=True)

    def follow(self, notice: Notice | None, places: Iterable[Place], *, has_changed: bool) -> None:
        """Ring for what a commit did not tell by itself: if it changed nothing, its notice was not sent."""
        if notice is None:
            if has_changed:
                self.ring(places)
            return
        riding, self._riding, self._riding_since = self._riding, set(), None
        if has_changed:
            self._note_sent()
        elif riding:
            self._has_bounced = True
            self.ring(riding)

    def ring(self, places: Iterable[Place] = _ANYWHERE) -> None:
        """Have a notice sent soon, which tells where jobs were stored; without places, that it may be anywhere."""
        self._places.update(places)
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def close(self) -> None:
        """Send what is to be sent."""
        self._is_closing = True
        if self._sending is not None:
            if not self._is_on_its_way:
                self._sending.cancel()
            await asyncio.wait([self._sending])
        if self._places or self._riding:
            await self._deliver()

    async def _send(self) -> None:
        try:
            while (self._places or self._riding) and not self._is_closing:
                early = self._next_at() - monotonic()
                if early > 0:
                    # No less than a loop's clock can tell.
                    await asyncio.sleep(max(early, 0.001))
                else:
                    await self._deliver()
        finally:
            self._sending = None

    def _next_at(self) -> float:
        """Say when to send: the first at once; under load, one for many is enough and spares the server."""
        at = self._sent_at + self._pause
        if self._has_bounced:
            return at
        if self._riding_since is not None:
            # Its commit may wait for something. What others have to tell does not wait for that: it is told twice then.
            return max(at, self._riding_since + LONGEST_PAUSE_SECONDS)
        return at + GRACE_SECONDS

    async def _deliver(self) -> None:
        self._is_on_its_way = True
        notice = _notice(self._mark, self._places | self._riding)
        self._places, self._riding, self._has_bounced = set(), set(), False
        self._note_sent()
        try:
            # Nobody relies on it, and whoever listens will notice that we are gone.
            with suppress(RotaError):
                await self._database.alone(notify, notice.channel, notice.text)
        finally:
            self._is_on_its_way = False

    def _note_sent(self) -> None:
        now = monotonic()
        goes_on = now < self._sent_at + 2 * (self._pause + GRACE_SECONDS)
        self._pause = min(self._pause * PAUSE_GROWTH, LONGEST_PAUSE_SECONDS) if goes_on else PAUSE_SECONDS
        self._sent_at = now


def _notice(mark: str, places: Collection[Place], *, tells_one: bool = False) -> Notice:
    """Write a notice: who sends it, and where jobs were stored, unless that is too much for one."""
    text = json.dumps([mark, *sorted(places)])
    if len(text) >= LONGEST:
        return Notice(CHANNEL, json.dumps([mark]))
    return Notice(CHANNEL if TIMES in places else WORK_CHANNEL, text, tells_one)


class Ear:
    """Listens for the bells of others; `stored` is told where they store jobs, `open_claims` what they bring."""

    def __init__(
        self, database: Database, mark: str, stored: Callable[[Iterable[Place]], None], open_claims: OpenClaims
    ) -> None:
        self._database = database
        self._stored = stored
        self._open_claims = open_claims
        #: How often something was heard since somebody last asked for work, and where the job is that was told of last,
        #: if it was one, and when.
        self._unasked = 0
        self._heard_at = 0.0
        self._heard: tuple[str, str] | None = None
        self._mark = mark
        self._probe = f"{PROBE}{mark}"
        self._count = 0
        self._told = 0
        self._news: deque[frozenset[str]] = deque(maxlen=REMEMBERED)
        self._change = asyncio.Event()
        #: Those who watch and are told at once.
        self._heeds: list[Heed] = []
        self._echo = asyncio.Event()
        self._deaf = asyncio.Event()
        self._deaf.set()
        self._wants_work = False
        self._wants_brought = False
        #: Set when there is a cause to look after the connection before its time.
        self._stirred = asyncio.Event()
        self._ready = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        database.on_silence = self._begin_anew

    @property
    def _is_hearing(self) -> bool:
        return not self._deaf.is_set()

    def hear_work(self, *, also_brought: bool = False) -> None:
        """Listen for work from now on, since somebody asks for it; also for what is somebody's as soon as it comes."""
        if not self._wants_work or (also_brought and not self._wants_brought):
            self._wants_work = True
            self._wants_brought |= also_brought
            self._stirred.set()

    def take_heard(self) -> tuple[str, str] | None:
        """Give the queue and the type of the one job that was heard of since somebody last asked, if it was one.

        Only to who goes first: whoever comes later finds it gone, and would look in vain.
        """
        is_fresh = self._unasked == 1 and monotonic() < self._heard_at + HEAD_START_SECONDS
        heard = self._heard if is_fresh else None
        self._unasked, self._heard = 0, None
        return heard

    async def wait(self, at_most: timedelta, heed: Heed | None = None) -> frozenset[str]:
        """Wait until something may have changed since the last time, at most for a while, and say at which places.

        Where that can be heard, `heed` is told instead, by the call that hears it: to wake a task for that takes longer
        than to tell.
        """
        is_hearing = await self._begin()
        seen = self._told
        try:
            async with asyncio.timeout(at_most.total_seconds()):
                if not is_hearing:
                    await asyncio.sleep(POLL_SECONDS)
                    return ANYWHERE
                if heed is not None and self._count == seen:
                    await self._tell(heed)
                    # It was told all there was. Nothing can be heard any more: the next watch looks.
                    return frozenset()
                while self._count == seen:
                    self._change.clear()
                    await self._change.wait()
        except TimeoutError:
            return frozenset()
        self._told = self._count
        return self._since(seen)

    async def _tell(self, heed: Heed) -> None:
        """Tell somebody of all that is heard, until it waits no longer or nothing can be."""
        self._heeds.append(heed)
        try:
            await self._deaf.wait()
        finally:
            self._heeds.remove(heed)

    def _since(self, seen: int) -> frozenset[str]:
        """Give the places that were told of since then, to everyone who has waited since."""
        missed = self._count - seen
        return ANYWHERE if missed > len(self._news) else frozenset().union(*islice(reversed(self._news), missed))

    async def _begin(self) -> bool:
        """Begin to listen, and say whether anything can be heard."""
        if self._listening is None:
            listening = supervised("the listener on PostgreSQL", self._listen_always)
            self._listening = asyncio.get_running_loop().create_task(listening)
            # The first time only: later, whoever watches while the server is away need not wait for it.
            with suppress(TimeoutError):
                async with asyncio.timeout(BEGIN_SECONDS):
                    await self._ready.wait()
        return self._is_hearing

    async def close(self) -> None:
        """Stop listening."""
        if self._listening is not None:
            self._listening.cancel()
            with suppress(asyncio.CancelledError):
                await self._listening

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
            self._deaf.set()
            self._wake()
            self._ready.set()
            await asyncio.sleep(DEAF_SECONDS)

    def _begin_anew(self) -> None:
        """Drop the connection by which we listen, which may be half-open: a job could be brought to us in vain."""
        if self._connection is not None:
            self._connection.terminate()

    async def _listen(self, connection: Connection) -> None:
        if self._database.connector.is_pooled:
            return
        await _listen_to(connection, CHANNEL, self._hear)
        connection.add_termination_listener(self._break_off)
        hears_work = hears_brought = False
        self._stirred.clear()
        while not connection.is_closed() and await self._hears_itself():
            is_new = not self._is_hearing
            if self._wants_work and not hears_work:
                address = await self._taken_address(connection)
                await _listen_to(connection, WORK_CHANNEL, self._hear)
                self._open_claims.address = address
                hears_work = is_new = True
            if self._wants_brought and not hears_brought:
                await _listen_to(connection, BROUGHT_CHANNEL, self._hear_brought)
                hears_brought = is_new = True
            if is_new:
                self._deaf.clear()
                # What was written before we listened was not heard.
                self._wake()
                self._ready.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(PROBE_SECONDS):
                    await self._stirred.wait()
            # Not before the wait: it may have broken off while we made sure that we hear.
            self._stirred.clear()

    async def _taken_address(self, connection: Connection) -> Address | None:
        """Hold a lock that says that somebody hears by this connection, for as long as it lives; give the address."""
        address = new_address()
        async with asyncio.timeout(CONNECT_SECONDS):
            is_free = await connection.fetchval("SELECT pg_try_advisory_lock($1)", address.sign)
        await _listen_to(connection, address.channel, self._hear_answer)
        return address if is_free else None

    async def _hears_itself(self) -> bool:
        self._echo.clear()
        await self._database.alone(notify, CHANNEL, self._probe)
        try:
            async with asyncio.timeout(ECHO_SECONDS):
                await self._echo.wait()
        except TimeoutError:
            return False
        return True

    def _hear(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:  # noqa: ANN401 - asyncpg's
        text = str(payload)
        if text.startswith(PROBE):
            # Somebody speaks to itself; perhaps we.
            if text == self._probe:
                self._echo.set()
            return
        try:
            told = self._read(text)
        except (msgspec.DecodeError, ValueError, TypeError, AttributeError):
            # Not one of ours, or from a later release: something has changed, that is all.
            self._heard = None
            told = ANYWHERE
        if told:
            self._wake(told)

    def _hear_answer(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:  # noqa: ANN401 - asyncpg's
        """Tell who waits for an answer, and nobody else."""
        try:
            answer = read_answer(str(payload))
        except msgspec.DecodeError:
            # From a later release: who looks finds it.
            self._wake()
            return
        if self._open_claims.bring(answer):
            self._tell_all(frozenset({answer_to(answer.claim_id)}))

    def _hear_brought(self, *_: object) -> None:
        """Tell who wants to hear of everything. Whoever waits for work would look in vain."""
        self._tell_all(frozenset({BROUGHT}))

    def _read(self, text: str) -> frozenset[str]:
        """Say at which places there may be something new by a notice; none if it is our own."""
        sender, *places = cast("tuple[str, *tuple[Place, ...]]", _NOTICES.decode(text))
        mark, _, number = sender.partition(NUMBERED)
        if mark == self._mark:
            return frozenset()
        self._heard = None
        self._stored(places)
        told = frozenset([queue for queue, _, _ in places]) or ANYWHERE
        if number:
            told |= {numbered(int(number))}
            if len(places) == 1:
                self._heard, self._heard_at = places[0][:2], monotonic()
        return told if mark.startswith(SAYS_TIMES) else told | ANYWHERE

    def _break_off(self, _connection: Any) -> None:  # noqa: ANN401 - asyncpg's
        self._open_claims.address = None
        self._echo.set()
        self._stirred.set()

    def _wake(self, places: frozenset[str] = ANYWHERE) -> None:
        self._unasked += 1
        self._tell_all(places)

    def _tell_all(self, places: frozenset[str]) -> None:
        self._count += 1
        self._news.append(places)
        if self._heeds:
            self._told = self._count
            for heed in tuple(self._heeds):
                heed(places)
        self._change.set()


async def _listen_to(connection: Connection, channel: str, hear: Callable[..., None]) -> None:
    async with asyncio.timeout(CONNECT_SECONDS):
        await connection.add_listener(channel, hear)

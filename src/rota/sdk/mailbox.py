"""The mailbox: where many threads and loops hand in what is to be done on the portal's loop.

A crossing from one thread to another costs more than most of what is done behind it. So whoever hands something in
while the portal has already been told to come for it only leaves it there; the portal takes all there is, has it served
together (see `MergingDesk`), and each loop that waits is woken once for all its answers.

Who goes away before the portal has come for it is left out; later, it is served and its answer dropped.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from rota.core.errors import StoreUnavailable
from rota.desk import MergingDesk

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class _Letter(Generic[Item, Answer]):
    """Something handed in, and who waits for its answer: a thread, or a loop."""

    __slots__ = ("items", "loop", "waiting")

    def __init__(
        self,
        items: Sequence[Item],
        waiting: concurrent.futures.Future[Sequence[Answer]] | asyncio.Future[Sequence[Answer]],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.items = items
        self.waiting = waiting
        self.loop = loop


_Bag: TypeAlias = list[tuple[_Letter[Item, Answer], "asyncio.Future[Sequence[Answer]]"]]


class Mailbox(Generic[Item, Answer]):
    """Brings what is handed in to a desk on a loop, and the answers back."""

    def __init__(self, loop: asyncio.AbstractEventLoop, desk: MergingDesk[Item, Answer]) -> None:
        self._loop = loop
        self._desk = desk
        self._guard = threading.Lock()
        self._letters: list[_Letter[Item, Answer]] = []
        #: What goes back to each loop.
        self._bags: dict[asyncio.AbstractEventLoop, _Bag[Item, Answer]] = {}
        self._is_open = True

    def post(self, items: Sequence[Item]) -> Sequence[Answer]:
        """Hand something in and wait for the answers, from a thread without a loop."""
        waiting: concurrent.futures.Future[Sequence[Answer]] = concurrent.futures.Future()
        self._hand_in(_Letter(items, waiting))
        return waiting.result()

    async def apost(self, items: Sequence[Item]) -> Sequence[Answer]:
        """Hand something in and wait for the answers, from any loop."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Sequence[Answer]] = loop.create_future()
        self._hand_in(_Letter(items, waiting, loop))
        return await waiting

    async def close(self) -> None:
        """Have everything served that was handed in, and take nothing more. Runs on the portal's loop."""
        with self._guard:
            self._is_open = False
        self._collect()
        await self._desk.close()
        # So that the answers are on their way before the loop ends.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _hand_in(self, letter: _Letter[Item, Answer]) -> None:
        with self._guard:
            if not self._is_open:
                raise StoreUnavailable("Rota was closed meanwhile; submit it again")
            is_first = not self._letters
            self._letters.append(letter)
        if is_first:
            try:
                self._loop.call_soon_threadsafe(self._collect)
            except RuntimeError as error:
                # Its loop is closed: whoever comes next must not rely on us to have told it.
                with self._guard:
                    self._letters.clear()
                raise StoreUnavailable("Rota was closed meanwhile; submit it again") from error

    def _collect(self) -> None:
        with self._guard:
            letters, self._letters = self._letters, []
        for letter in letters:
            if not letter.waiting.cancelled():
                self._desk.hand_in(letter.items).add_done_callback(partial(self._served, letter))

    def _served(self, letter: _Letter[Item, Answer], served: asyncio.Future[Sequence[Answer]]) -> None:
        if letter.loop is None:
            _answer(letter, served)
            return
        if not self._bags:
            self._loop.call_soon(self._send_back)
        self._bags.setdefault(letter.loop, []).append((letter, served))

    def _send_back(self) -> None:
        bags, self._bags = self._bags, {}
        for loop, bag in bags.items():
            # Closed: nobody is left to be answered.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_answer_all, bag)


def _answer_all(bag: _Bag[Item, Answer]) -> None:
    for letter, served in bag:
        _answer(letter, served)


def _answer(letter: _Letter[Item, Answer], served: asyncio.Future[Sequence[Answer]]) -> None:
    waiting = letter.waiting
    if waiting.done():
        return
    if served.cancelled():
        waiting.set_exception(StoreUnavailable("Rota was closed before this was done"))
    elif (error := served.exception()) is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(served.result())

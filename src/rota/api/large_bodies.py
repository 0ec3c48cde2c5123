"""Reading large bodies off the event loop.

To read a megabyte of JSON takes up to a third of a second where it is hostile: hundreds of thousands of small lists.
One thread reads such bodies, one after the other, so that they share what memory it takes. Python hands the
interpreter over between its steps; each step written in C (decoding, freeing) holds it for some 40 ms at most. The
garbage collector would make that several times as long, walking over all the lists again and again while they are
made, so it rests meanwhile: a tree of JSON has no cycles.
"""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from rota.api.reading import read
from rota.api.settings import Limits

T = TypeVar("T")
#: Bodies up to this size are read where they are: that takes no longer than to hand them over and back.
LARGE_BYTES: Final = 65_536

_reader: Final = ThreadPoolExecutor(1, thread_name_prefix="rota-large-body")


async def read_large(body: bytes, form: type[T], limits: Limits) -> T:
    """Read a body as a form; a large one in the thread for it."""
    if len(body) <= LARGE_BYTES:
        return read(body, form, limits)
    return await asyncio.get_running_loop().run_in_executor(_reader, _read, body, form, limits)


def _read(body: bytes, form: type[T], limits: Limits) -> T:
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        return read(body, form, limits)
    finally:
        if was_collecting:
            gc.enable()

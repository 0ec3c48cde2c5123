"""What is computed while the server works."""

from __future__ import annotations

import asyncio

import pytest

from rota.stores.mysql.meanwhile import Meanwhile


async def test_it_is_computed_once_while_we_wait() -> None:
    done: list[int] = []

    def compute() -> int:
        done.append(1)
        return 7

    meanwhile = Meanwhile(compute)
    assert done == []
    await asyncio.sleep(0)
    assert done == [1]
    assert (meanwhile.result(), meanwhile.result(), done) == (7, 7, [1])


async def test_who_never_waited_has_it_computed_when_it_asks() -> None:
    done: list[None] = []
    assert Meanwhile(lambda: done.append(None)).result() is None
    await asyncio.sleep(0)
    assert len(done) == 1


async def test_what_goes_wrong_is_raised_where_it_is_asked_for() -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    meanwhile = Meanwhile(lambda: 1 // 0)
    await asyncio.sleep(0)
    with pytest.raises(ZeroDivisionError):
        meanwhile.result()
    assert told == []

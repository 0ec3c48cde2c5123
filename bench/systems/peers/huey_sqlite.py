"""Huey on a SQLite file, with results."""

from __future__ import annotations

import sys

from huey import SqliteHuey

from bench.systems.peers import handlers
from bench.systems.peers.huey_both import HueyClient
from bench.systems.protocol import variable
from bench.systems.start_times import mark

huey = SqliteHuey("bench", filename=variable("STORE"))


@huey.task()
def touch(number: int, text: str) -> int:  # noqa: ARG001 - carried for its size
    return mark(number)


@huey.task()
def nap(number: int) -> None:
    handlers.nap(number)


class Client(HueyClient):
    loses = "what a killed worker had begun"
    module = sys.modules[__name__]

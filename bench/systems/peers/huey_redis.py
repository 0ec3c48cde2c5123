"""Huey on Redis, with results."""

from __future__ import annotations

import sys

from huey import RedisHuey

from bench.systems.peers import handlers
from bench.systems.peers.huey_both import HueyClient
from bench.systems.protocol import variable
from bench.systems.start_times import mark

huey = RedisHuey("bench", url=variable("STORE"))


@huey.task()
def touch(number: int, text: str) -> int:  # noqa: ARG001 - carried for its size
    return mark(number)


@huey.task()
def nap(number: int) -> None:
    handlers.nap(number)


class Client(HueyClient):
    loses = "acknowledged jobs since the last snapshot; what a killed worker had begun"
    module = sys.modules[__name__]

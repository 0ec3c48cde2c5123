"""Huey on a SQLite file, with results."""

from __future__ import annotations

from huey import SqliteHuey

from bench.systems.peers.huey_both import HueyClient
from bench.systems.protocol import told

huey = SqliteHuey("bench", filename=told("STORE"))


class Client(HueyClient):
    loses = "what a killed worker had begun"

    def __init__(self) -> None:
        super().__init__(huey, __name__)


#: Made here as well: a consumer knows the tasks of the module that it loads.
client = Client()

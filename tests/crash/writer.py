"""Writer process: works on a store until it is stopped or killed.

Every line of its workload goes into a pipe at the moment it is known, so that the test that kills the process has all
that it was promised. It stops when the other end of its control pipe is closed, thus also when its parent dies.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Self

from crash.acknowledgements import Line
from crash.pragma_override import Settings, altered
from crash.workload import Identity, Workload
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import StandardConnection


@dataclass(frozen=True, slots=True)
class Errand:
    """What a writer is to do."""

    path: str
    seed: int
    number: int = 0
    generation: int = 0
    tasks: int = 16
    #: Claims of an earlier start that were never answered.
    unanswered: tuple[str, ...] = ()
    #: Open the store again after so many answers; with none, only once.
    answers_per_visit: int | None = None
    #: The system refuses to let a file grow beyond this.
    largest_file: int | None = None
    #: PRAGMAs with another value than the store sets.
    settings: Settings = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        return cls(**{**plain, "unanswered": tuple(plain["unanswered"])})


def write(errand: Errand, lines: int, control: int) -> None:
    """Work until the control pipe is closed. `lines` and `control` are file descriptors."""

    def note(line: Line) -> None:
        os.write(lines, json.dumps(line).encode() + b"\n")

    if errand.largest_file is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (errand.largest_file, hard))
    try:
        asyncio.run(_work(errand, note, control))
    except BaseException as error:  # the parent must hear of it, whatever it is
        note(["error", f"{errand.path}: {_in_words(error)}"])
        raise


async def _work(errand: Errand, note: Callable[[Line], None], control: int) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(control, over.set)
    rng = random.Random(errand.seed)
    identity = Identity(errand.number, errand.generation)
    answers = 0

    def count(line: Line) -> None:
        nonlocal answers
        answers += line[0] == "ok"
        note(line)

    numbers = None
    while not over.is_set():
        store = await SqliteStore.open(errand.path, connect=altered(StandardConnection, errand.settings))
        load = Workload(store, identity, count, rng)
        if numbers is None:
            await load.settle_in(errand.unanswered)
        else:
            load.numbers = numbers
        enough = sys.maxsize if errand.answers_per_visit is None else answers + errand.answers_per_visit
        await load.run(errand.tasks, partial(lambda enough: over.is_set() or answers >= enough, enough))
        numbers = load.numbers
        await store.close()


def _in_words(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(_in_words, error.exceptions))
    return f"{type(error).__name__}: {error}"

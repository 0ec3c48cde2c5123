"""Misbehaving handlers beside a correct one: each job ends as documented, and the correct one is not affected."""

from __future__ import annotations

import time
from typing import Any

from journeys.system import System
from proofs.processes import server, submit, worker

APP = """
import os, re, time
from rota import Rota

app = Rota()

@app.task
async def blocks_the_loop(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"

@app.task
def holds_the_gil() -> str:
    re.match(r"(a+)+$", "a" * 29 + "b")
    return "held"

@app.task
def leaves() -> None:
    os._exit(7)

@app.task
def gives_an_object() -> object:
    return object()

class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

@app.task
def raises_unspeakable() -> None:
    raise Unspeakable

@app.task
async def behaves(number: int) -> int:
    return number + 1
"""


def prove(system: System, *, seconds: float) -> str:
    (system.folder / "nasty.py").write_text(APP, encoding="utf-8")
    server(system)
    # One that blocks its own loop keeps its lease; a second worker keeps the rest going, as in production.
    worker(system, "one", "--app", "nasty:app")
    worker(system, "two", "--app", "nasty:app")
    asked = {
        "blocks_the_loop": [seconds],
        "holds_the_gil": [],
        "gives_an_object": [],
        "raises_unspeakable": [],
        "leaves": [],
    }
    begun = time.monotonic()
    ids = {
        name: submit(system, 1, type=name, payload={"args": given, "kwargs": {}})[0] for name, given in asked.items()
    }
    good = submit(system, 200, type="behaves", payload={"args": [1], "kwargs": {}})
    ended = {name: _end(system, one, seconds) for name, one in ids.items()}
    taken = time.monotonic() - begun
    harmed = [job for one in good if (job := _end(system, one, seconds))["result"] != 2]
    assert not harmed, harmed[:3]
    answer = {name: (job["status"], job["attempts"], job.get("reason")) for name, job in ended.items()}
    assert answer["blocks_the_loop"][:1] == ("completed",), answer
    assert answer["holds_the_gil"][:1] == ("completed",), answer
    assert (answer["leaves"][0], answer["leaves"][2], ended["leaves"]["crashes"]) == ("dead", "poison", 3), answer
    assert (answer["gives_an_object"][0], answer["gives_an_object"][2]) == ("dead", "permanent"), answer
    assert (answer["raises_unspeakable"][0], answer["raises_unspeakable"][2]) == ("dead", "exhausted"), answer
    errors = {name: job["error"]["message"][:60] for name, job in ended.items() if job["error"]}
    return f"{answer} in {taken:.0f} s, 200 of 200 others completed; {errors}"


def _end(system: System, job_id: str, seconds: float) -> dict[str, Any]:
    # Workers that were taken down are started anew, as any supervisor does.
    def look() -> dict[str, Any]:
        for number, process in enumerate(system.started[1:3], start=1):
            if process.poll() is not None:
                name = f"again-{len(system.started)}"
                system.started.insert(number, worker(system, name, "--app", "nasty:app"))
                del system.started[number + 1]
        return system.job(job_id)

    return system.until(look, lambda job: job["status"] in {"completed", "dead"}, seconds=seconds + 60)

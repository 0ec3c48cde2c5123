"""Webhooks with real receivers: what is sent, how it is signed, and receivers that refuse it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from api.environment import api_environment, problem_of
from journeys.conftest import system
from journeys.system import System
from rota import GiveUp, Rota
from rota.core.webhook import EVENTS
from rota.ports.client import Actor
from rota.worker.builtin import webhook as sending

__all__ = ["system"]
Received = tuple[dict[str, str], bytes]
Answer = Callable[[int], tuple[int, dict[str, str]]]
ON_STORES = pytest.mark.parametrize("system", ["sqlite", "postgres", "mariadb"], indirect=True)


@contextmanager
def receiver(
    answer: Answer = lambda _: (200, {}), *, hang: threading.Event | None = None
) -> Iterator[tuple[str, Queue[Received]]]:
    """Listen on a port of this machine, and keep what comes."""
    inbox: Queue[Received] = Queue()
    numbers = count()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, headers = answer(next(numbers))
            inbox.put(({name.lower(): value for name, value in self.headers.items()}, body))
            if hang is not None:
                hang.wait(60)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", inbox
    finally:
        if hang is not None:
            hang.set()
        server.shutdown()
        server.server_close()


def is_signed(headers: dict[str, str], body: bytes, secret: str) -> bool:
    """Verify a message as a receiver does, by the specification and not by Rota's code."""
    assert abs(time.time() - int(headers["webhook-timestamp"])) < 300
    key = base64.b64decode(secret.split("_", 1)[1])
    text = headers["webhook-id"] + "." + headers["webhook-timestamp"] + "." + body.decode()
    expected = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
    return any(
        version == "v1" and hmac.compare_digest(value, expected)
        for version, value in (part.split(",", 1) for part in headers["webhook-signature"].split(" "))
    )


def serve(system: System, **told: str) -> None:
    """Start an API and a scheduler, which may reach receivers on this machine, and no worker."""
    system.variables = {"ROTA_ALLOW_HOSTS": "127.0.0.1", **told}
    system.start("-mode", "scheduler", "-port", str(system.port), "-db", system.store)
    system.until_up()


def add(system: System, url: str, **more: object) -> dict[str, Any]:
    body = {"name": "ops", "url": url, "events": list(EVENTS), **more}
    webhook: dict[str, Any] = system.ask("POST", "/v1/webhooks", body)
    return webhook


def deliveries(system: System) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = system.ask("GET", "/v1/webhooks/ops/deliveries")["items"]
    return found


@ON_STORES
def test_every_end_of_a_job_is_told_signed_and_thin(system: System) -> None:
    serve(system)
    with receiver() as (url, inbox):
        secret = add(system, url, queues=["mail"])["secret"]
        ends = {"succeeded": "job.completed", "failed": "job.dead", "cancel": "job.cancelled"}
        answer = {}
        for end, event in ends.items():
            job = system.ask("POST", "/v1/jobs", {"type": "a", "queue": "mail", "max_attempts": 1, "payload": "geheim"})
            other = system.ask("POST", "/v1/jobs", {"type": "a", "queue": "other", "max_attempts": 1})
            for one in (job, other):
                if end == "cancel":
                    system.ask("POST", f"/v1/jobs/{one['id']}/cancel")
                    continue
                claim = {"worker_id": "ada", "boot_id": "b", "queues": [one["queue"]], "max": 1}
                (leased,) = system.ask("POST", "/v1/leases:claim", claim)["jobs"]
                report = {"id": leased["id"], "fence": leased["fence"], "outcome": end}
                report |= {"error": {"kind": "OSError", "message": "geheim"}} if end == "failed" else {}
                system.ask("POST", "/v1/leases:settle", {"reports": [report]})
            answer[event] = job["id"]
        for _ in ends:
            headers, body = inbox.get(timeout=60)
            message = json.loads(body)
            assert is_signed(headers, body, secret)
            assert not is_signed(headers, body, "whsec_" + base64.b64encode(bytes(32)).decode())
            assert headers["content-type"] == "application/cloudevents+json"
            assert (message["specversion"], message["source"], message["id"]) == ("1.0", "rota", headers["webhook-id"])
            assert answer.pop(message["type"]) == message["subject"] == message["data"]["id"]
            assert b"geheim" not in body
            assert len(body) < 20_000
        assert not answer
        system.ask("POST", "/v1/queues/mail/pause", {"reason": "deploy"})
        assert json.loads(inbox.get(timeout=60)[1])["type"] == "queue.paused"
        system.until(lambda: {one["status"] for one in deliveries(system)}, lambda states: states == {"completed"})
        assert inbox.empty()


def test_the_secret_is_replaced_while_messages_have_both_signatures(system: System) -> None:
    serve(system)
    with receiver() as (url, inbox):
        old = add(system, url)["secret"]
        new = system.ask("POST", "/v1/webhooks/ops/rotate", {"overlap": "1h"})["secret"]
        system.ask("POST", "/v1/webhooks/ops/test")
        headers, body = inbox.get(timeout=60)
        assert is_signed(headers, body, old)
        assert is_signed(headers, body, new)
        newest = system.ask("POST", "/v1/webhooks/ops/rotate", {"overlap": 0})["secret"]
        system.ask("POST", "/v1/webhooks/ops/test")
        headers, body = inbox.get(timeout=60)
        assert is_signed(headers, body, newest)
        assert not is_signed(headers, body, new)


def test_a_receiver_that_fails_gets_the_same_message_again(system: System) -> None:
    serve(system)
    with receiver(lambda number: (500, {}) if number == 0 else (200, {})) as (url, inbox):
        secret = add(system, url)["secret"]
        system.ask("POST", "/v1/webhooks/ops/test")
        first = inbox.get(timeout=60)
        (waiting,) = system.until(lambda: deliveries(system), lambda found: found[0]["status"] == "retrying")
        assert "answered 500" in waiting["error"]["message"]
        second = inbox.get(timeout=60)
        assert first[1] == second[1]
        assert first[0]["webhook-id"] == second[0]["webhook-id"]
        assert is_signed(*second, secret)
        system.until(lambda: deliveries(system)[0]["status"], lambda status: status == "completed")


def test_retry_after_puts_a_message_off_without_counting_an_attempt(system: System) -> None:
    serve(system)
    with receiver(lambda _: (503, {"Retry-After": "1000"})) as (url, inbox):
        add(system, url)
        system.ask("POST", "/v1/webhooks/ops/test")
        inbox.get(timeout=60)
        (put_off,) = system.until(lambda: deliveries(system), lambda found: found[0]["status"] == "scheduled")
        assert put_off["attempts"] == 0


def test_410_disables_the_webhook_until_it_is_enabled(system: System) -> None:
    serve(system)
    with receiver(lambda number: (410, {}) if number == 0 else (200, {})) as (url, inbox):
        add(system, url)
        system.ask("POST", "/v1/webhooks/ops/test")
        inbox.get(timeout=60)
        webhook = system.until(lambda: system.ask("GET", "/v1/webhooks/ops"), lambda one: not one["is_enabled"])
        assert webhook["disabled_reason"] == "the receiver answered 410 Gone"
        system.until(lambda: deliveries(system)[0]["status"], lambda status: status == "dead")
        system.ask("POST", "/v1/webhooks/ops/enable")
        system.ask("POST", "/v1/webhooks/ops/test")
        inbox.get(timeout=60)
        system.until(lambda: deliveries(system)[0]["status"], lambda status: status == "completed")


def test_a_redirect_is_not_followed_wherever_it_leads(system: System) -> None:
    serve(system)
    with receiver() as (inside, untouched), receiver(lambda _: (307, {"Location": inside})) as (url, inbox):
        add(system, url)
        system.ask("POST", "/v1/webhooks/ops/test")
        inbox.get(timeout=60)
        (failed,) = system.until(lambda: deliveries(system), lambda found: found[0]["error"] is not None)
        assert "redirects are not followed" in failed["error"]["message"]
        assert untouched.empty()


def test_a_private_address_is_refused_unless_it_is_allowed(system: System) -> None:
    serve(system, ROTA_ALLOW_HOSTS="192.0.2.1")
    with receiver() as (url, inbox):
        add(system, url)
        system.ask("POST", "/v1/webhooks/ops/test")
        (refused,) = system.until(lambda: deliveries(system), lambda found: found[0]["status"] == "dead")
        assert "not a public address" in refused["error"]["message"]
        assert inbox.empty()


def test_a_receiver_that_hangs_costs_one_attempt_and_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "ANSWER_WITHIN", sending.ANSWER_WITHIN / 15)
    monkeypatch.setenv("ROTA_ALLOW_HOSTS", "127.0.0.1")
    app, released = Rota(str(tmp_path / "rota.db")), threading.Event()

    @app.task
    def work() -> None:
        raise GiveUp("no")

    async def create(name: str, url: str) -> str:
        engine = (await app.link()).engine
        assert engine is not None
        return (await engine.webhooks.create(name, url, ("job.dead",), (), Actor("ann"))).id

    async def log(name: str) -> list[Any]:
        engine = (await app.link()).engine
        assert engine is not None
        return list(await engine.webhooks.deliveries(name, 10))

    with receiver(hang=released) as (slow, stuck), receiver() as (fast, inbox), app.run():
        app.portal.call(create("slow", slow))
        app.portal.call(create("fast", fast))
        work.submit()
        stuck.get(timeout=60)
        assert json.loads(inbox.get(timeout=60)[1])["type"] == "job.dead"
        give_up_at = time.monotonic() + 60
        while (job := app.portal.call(log("slow"))[0]).error is None:
            assert time.monotonic() < give_up_at
            time.sleep(0.05)
        assert "gave no answer within 1 s" in job.error.message


async def test_nobody_can_submit_a_delivery() -> None:
    async with api_environment() as here:
        answer = await here.client.post("/v1/jobs", json={"type": "rota.webhook", "payload": {}})
        assert "Rota's own" in problem_of(answer, 422)["detail"]
        follow_up = {"type": "a", "on_success": {"type": "rota.webhook"}}
        problem_of(await here.client.post("/v1/jobs", json=follow_up), 422)

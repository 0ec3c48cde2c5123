"""Every metric changes when what it measures changes, in a real server and a real worker.

The rows are walked in order, on one deployment: PostgreSQL behind a proxy, Valkey, a scheduler that serves the API, and
a worker that knows nothing but that API. Each row scrapes, acts, and scrapes until its condition holds. The condition
must not hold without the metric, nor for what was scraped before. The rows are compared with the catalogue.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from subprocess import Popen

import pytest
from prometheus_client.parser import text_string_to_metric_families as families_of

from journeys.system import PATIENCE_SECONDS, System
from rota.stores.postgres import PostgresStore
from rota.telemetry import metric_definitions
from rota.telemetry.metric_definitions import ALL_METRICS, Metric
from rota.version import __version__
from servers.postgres import shared_server
from servers.private_server import free_port
from servers.proxies import Proxy
from servers.valkey import ValkeyServer, require_binary

#: The samples of one metric: by their labels and, of a histogram, the ending of the name.
Samples = Mapping[str, float]
Condition = Callable[[Samples, Samples], bool]


@dataclass
class Deployment:
    """The processes and servers that the rows act on."""

    system: System
    database: Proxy
    api: Proxy
    broker: ValkeyServer
    worker_port: int = field(default_factory=free_port)
    worker: Popen[bytes] | None = None
    #: The ids of jobs that later rows need.
    ids: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        system = self.system
        store = ("--store", self.database.through(system.store), "--broker", self.broker.url)
        variables = {"ROTA_KEEP_COMPLETED": "5s"}
        system.start("scheduler", "--port", str(system.port), *store, environment=variables)
        system.until_up()

    def start_worker(self) -> None:
        variables = {"ROTA_API_URL": f"http://127.0.0.1:{self.api.port}"}
        address = ("--worker-address", f"127.0.0.1:{self.worker_port}")
        self.worker = self.system.start("worker", "--concurrency", "3", *address, environment=variables)

    def submit(self, kind: str = "echo", **fields: object) -> str:
        job_id: str = self.system.ask("POST", "/v1/jobs", {"type": kind, **fields})["id"]
        return job_id

    def run(self) -> None:
        job_id = self.submit()
        self.system.until(lambda: self.system.job(job_id)["status"], lambda status: status == "completed")

    def claim(self, queue: str, lease: float = 60) -> dict[str, object]:
        """Claim a job as a worker of our own would."""
        asked = {"worker_id": "hand", "boot_id": "1", "queues": [queue], "lease": lease, "wait": 20}
        (job,) = self.system.ask("POST", "/v1/leases:claim", asked)["jobs"]
        return {"id": job["id"], "fence": job["fence"]}

    def settle(self, lease: Mapping[str, object], outcome: str, **fields: object) -> None:
        self.system.ask("POST", "/v1/leases:settle", {"reports": [{**lease, "outcome": outcome, **fields}]})

    def samples(self, metric: Metric, *, of_worker: bool) -> Samples:
        """Scrape the samples of a metric; none if the page cannot be had."""
        port = self.worker_port if of_worker else self.system.port
        request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": "text/plain"})
        try:
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - our own server
                families = list(families_of(response.read().decode()))
        except OSError:
            return {}
        return {
            " ".join(
                [sample.name.removeprefix(metric.name), *(f"{k}={v}" for k, v in sorted(sample.labels.items()))]
            ): (sample.value)
            for family in families
            if family.name == metric.name.removesuffix("_total")
            for sample in family.samples
            if not sample.name.endswith("_bucket")
        }


def grows(labels: str = "") -> Condition:
    """Expect a larger number than before; of a counter that is not shown yet, any."""
    return lambda before, after: labels in after and after[labels] > before.get(labels, 0)


def is_(value: float, labels: str = "") -> Condition:
    """Expect a number that was another one before."""
    return lambda before, after: after.get(labels) == value != before.get(labels)


@dataclass(frozen=True)
class Row:
    """What moves a metric, and what is to be seen then."""

    metric: Metric
    act: Callable[[Deployment], object]
    moved: Condition
    #: Puts things back; the metric must then be as it was before.
    undo: Callable[[Deployment], object] | None = None
    of_worker: bool = False
    #: Whether it has moved at the start of the process already: before that there was nothing.
    from_start: bool = False


def submit_workflow(deployment: Deployment) -> None:
    deployment.system.ask("POST", "/v1/workflows", {"name": "w", "nodes": [{"name": "a", "type": "echo"}]})


def nothing(_deployment: Deployment) -> None:
    """Leave everything as it is."""


def rejected(deployment: Deployment) -> None:
    with socket.create_connection(("127.0.0.1", deployment.system.port)) as connection:
        connection.sendall(b"no such thing\r\n\r\n")
        assert connection.recv(9) == b"HTTP/1.1 "


def scheduled(deployment: Deployment) -> None:
    job = {"name": "tick", "cron": "@every 1s", "job": {"type": "echo"}}
    deployment.system.ask("POST", "/v1/schedules", job)


def unlinked(deployment: Deployment) -> None:
    deployment.system.ask("DELETE", "/v1/schedules/tick")
    deployment.api.reset()


def lost(deployment: Deployment) -> None:
    deployment.submit("lost", queue="hand", max_attempts=1)
    deployment.claim("hand", lease=1)


def refused(deployment: Deployment) -> None:
    deployment.submit("late", queue="late")
    lease = deployment.claim("late")
    deployment.settle({**lease, "fence": 9}, "succeeded")
    deployment.settle(lease, "succeeded")


def limited(queue: str) -> Callable[[Deployment], None]:
    """Two jobs under a limit of one, the first of which runs; a worker that claims finds the limit full."""

    def act(deployment: Deployment) -> None:
        deployment.system.ask("PUT", f"/v1/limits/queue:{queue}", {"max_running": 1})
        for _ in range(2):
            deployment.submit("narrow", queue=queue)
        deployment.claim(queue, lease=600)
        ask = {"worker_id": "hand", "boot_id": "2", "queues": [queue], "lease": 60, "wait": 1}
        deployment.system.ask("POST", "/v1/leases:claim", ask)

    return act


def opened(deployment: Deployment) -> None:
    deployment.system.ask("POST", "/v1/breakers/stripe/open", {})


def waiting_for_breaker(deployment: Deployment) -> None:
    """A task that has a breaker is defined by an app; this one is put there as its scheduler would."""
    asyncio.run(_define_breaker(deployment.system.store))
    opened(deployment)
    deployment.submit("charge", queue="idle")


async def _define_breaker(url: str) -> None:
    store = await PostgresStore.open(url)
    (known,) = await store.breakers(["stripe"])
    assert await store.put_breaker(replace(known, tasks=(("shop", "charge"),)))
    await store.close()


def reset(deployment: Deployment) -> None:
    deployment.system.ask("POST", "/v1/breakers/stripe/reset", {})


def died(deployment: Deployment) -> None:
    deployment.submit("bad", queue="bad")
    deployment.settle(deployment.claim("bad"), "failed", error={"message": "no"}, permanent=True)


def busy(deployment: Deployment) -> None:
    deployment.ids["busy"] = deployment.submit("sleep", payload={"duration": 600})


def stop_busy(deployment: Deployment) -> None:
    deployment.system.ask("POST", f"/v1/jobs/{deployment.ids['busy']}/cancel")


def forgotten(deployment: Deployment) -> None:
    """Let the broker forget jobs that stand in line, since all slots are taken."""
    taken = [deployment.submit("sleep", payload={"duration": 600}) for _ in range(3)]
    for one in taken:
        deployment.system.until(lambda: deployment.system.job(one)["status"], lambda status: status == "running")  # noqa: B023
    waiting = deployment.submit()
    deployment.system.until(lambda: deployment.system.job(waiting)["status"], lambda status: status == "queued")
    deployment.broker.kill()
    deployment.broker.start()


def terminated(deployment: Deployment) -> None:
    assert deployment.worker is not None
    deployment.worker.send_signal(signal.SIGTERM)


def paused(deployment: Deployment) -> None:
    deployment.system.ask("POST", "/v1/queues/idle/pause", {"reason": "drill"})


def resumed(deployment: Deployment) -> None:
    deployment.system.ask("POST", "/v1/queues/idle/resume")


def idle(deployment: Deployment) -> None:
    """Submit a job that no worker takes."""
    deployment.ids["idle"] = deployment.submit("idle", queue="idle")


def stop_idle(deployment: Deployment) -> None:
    deployment.system.ask("POST", f"/v1/jobs/{deployment.ids['idle']}/cancel")


def cut_database(deployment: Deployment) -> None:
    deployment.database.reset()


def mend_database(deployment: Deployment) -> None:
    deployment.database.forward()


ROWS = [
    # What a server says of itself.
    Row(metric_definitions.BUILD, nothing, is_(1, f" version={__version__}"), from_start=True),
    Row(metric_definitions.LEADER, nothing, is_(1), from_start=True),
    Row(metric_definitions.LEADER_CHANGES, nothing, grows(), from_start=True),
    Row(metric_definitions.CPU, lambda one: [one.system.ask("GET", "/v1/stats") for _ in range(20)], grows()),
    Row(metric_definitions.HTTP_REJECTED, rejected, grows(" reason=invalid_http")),
    # A worker that comes, runs jobs, loses its API and its broker, and goes.
    Row(metric_definitions.WORKERS, Deployment.start_worker, is_(1)),
    Row(metric_definitions.ALL_SLOTS, nothing, is_(3), from_start=True),
    Row(metric_definitions.SLOTS, nothing, is_(3), of_worker=True, from_start=True),
    Row(metric_definitions.ALL_BUSY_SLOTS, busy, is_(1), undo=stop_busy),
    Row(metric_definitions.BUSY, busy, is_(1), undo=stop_busy, of_worker=True),
    Row(metric_definitions.SUBMITTED, Deployment.run, grows(" type=echo")),
    Row(metric_definitions.ATTEMPTS, Deployment.run, grows(" type=echo")),
    Row(metric_definitions.OUTCOMES, Deployment.run, grows(" outcome=succeeded type=echo")),
    Row(metric_definitions.DURATION, Deployment.run, grows("_count type=echo")),
    Row(metric_definitions.START_LATENCY, Deployment.run, grows("_count queue=default")),
    Row(metric_definitions.STORE, Deployment.run, grows("_count operation=submit")),
    Row(metric_definitions.DISPATCHED, Deployment.run, grows()),
    Row(metric_definitions.BROKER, Deployment.run, grows("_count operation=hand_over")),
    Row(metric_definitions.LATENESS, scheduled, grows("_count")),
    Row(metric_definitions.LINKED, unlinked, is_(0), undo=lambda one: one.api.forward(), of_worker=True),
    Row(metric_definitions.BROKER_UP, lambda one: one.broker.kill(), is_(0), undo=lambda one: one.broker.start()),
    Row(metric_definitions.RECALLED, forgotten, grows()),
    Row(metric_definitions.DRAINING, terminated, is_(1), of_worker=True),
    # Jobs in their states.
    Row(metric_definitions.JOBS, idle, grows(" queue=idle state=pending type=idle"), undo=stop_idle),
    Row(metric_definitions.DEPTH, idle, is_(1, " queue=idle"), undo=stop_idle),
    Row(metric_definitions.QUEUE_DUE, idle, is_(1, " queue=idle"), undo=stop_idle),
    Row(metric_definitions.QUEUE_OLDEST_DUE, idle, grows(" queue=idle"), undo=stop_idle),
    Row(metric_definitions.QUEUE_PAUSED, paused, is_(1, " queue=idle"), undo=resumed),
    Row(metric_definitions.FINISHED, died, grows(" state=dead")),
    Row(metric_definitions.DEAD_LETTERS, died, grows()),
    Row(metric_definitions.EMITTED, lambda one: one.system.ask("POST", "/v1/events/e", {}), grows(" emission=first")),
    Row(metric_definitions.WORKFLOWS, submit_workflow, grows(" action=submitted")),
    Row(metric_definitions.REFUSED, refused, grows()),
    Row(metric_definitions.CLAIMS_LIMITED, limited("narrow"), grows()),
    Row(metric_definitions.LIMIT_RUNNING, limited("tight"), is_(1, " limit=queue:tight")),
    Row(metric_definitions.LIMIT_WAITING, limited("close"), is_(1, " limit=queue:close")),
    Row(metric_definitions.BREAKER_STATE, opened, is_(2, " breaker=stripe"), undo=reset),
    Row(metric_definitions.BREAKER_WAITING, waiting_for_breaker, is_(1, " breaker=stripe"), undo=reset),
    Row(metric_definitions.BREAKER_CHANGES, opened, grows(" action=forced_open breaker=stripe")),
    Row(metric_definitions.LEASES_LOST, lost, grows(" type=lost")),
    # A store that is away.
    Row(metric_definitions.STORE_UP, cut_database, is_(0), undo=mend_database),
    Row(metric_definitions.STORE_WRITABLE, cut_database, is_(0), undo=mend_database),
    Row(metric_definitions.COORDINATOR_UP, cut_database, is_(0), undo=mend_database),
    Row(metric_definitions.PRUNED, nothing, grows(), from_start=True),
]  # fmt: skip


@pytest.fixture
def deployment(system: System) -> Iterator[Deployment]:
    with ExitStack() as stack:
        database, api = stack.enter_context(Proxy(shared_server().port)), stack.enter_context(Proxy(system.port))
        broker = ValkeyServer(require_binary())
        stack.callback(broker.remove)
        yield Deployment(system, database, api, broker)


@pytest.mark.parametrize("system", ["postgres"], indirect=True)
def test_every_metric_moves_with_its_subject(deployment: Deployment) -> None:
    deployment.start()
    for row in ROWS:
        walk(row, deployment)


def walk(row: Row, deployment: Deployment) -> None:
    def scraped() -> Samples:
        return deployment.samples(row.metric, of_worker=row.of_worker)

    before = {} if row.from_start else scraped()
    assert not row.moved(before, before), f"{row.metric.name} cannot be told from one that never moves: {before}"
    assert not row.moved(before, {}), f"{row.metric.name} cannot be told from one that is not shown"
    row.act(deployment)
    try:
        deployment.system.until(scraped, lambda after: row.moved(before, after), seconds=PATIENCE_SECONDS)
        if row.undo is not None:
            row.undo(deployment)
            deployment.system.until(scraped, lambda after: not row.moved(before, after))
    except AssertionError as error:
        raise AssertionError(f"{row.metric.name}, before: {json.dumps(before)}; {error}") from error


def test_no_metric_is_without_a_row() -> None:
    assert {row.metric.name for row in ROWS} == {metric.name for metric in ALL_METRICS}
    assert len(ROWS) == len(ALL_METRICS)

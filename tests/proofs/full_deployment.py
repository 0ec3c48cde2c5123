"""A full deployment with PostgreSQL, Redis, three etcd nodes, three schedulers and two workers, and a walk through it.

Its environment, its requests, and its load: `ab -n 10000 -c 100 -p job.json -T application/json …/jobs`.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from journeys.system import System
from proofs.processes import alive, states
from servers.etcd import EtcdCluster
from servers.etcd import require_binary as require_etcd
from servers.postgres import migrated_database, shared_server
from servers.private_server import free_port
from servers.valkey import ValkeyServer
from servers.valkey import require_binary as require_valkey


@contextmanager
def cluster(system: System) -> Iterator[System]:
    """Start the deployment with the variables of an older system; requests go to the first scheduler."""
    etcd, valkey = EtcdCluster(require_etcd(), 3), ValkeyServer(require_valkey())
    with asyncio.Runner() as runner:
        lent = migrated_database(shared_server())
        shared = {
            "POSTGRES_DSN": runner.run(lent.__aenter__()),
            "REDIS_URL": f"localhost:{valkey.port}",
            "ETCD_ENDPOINTS": etcd.endpoints,
            "REDIS_STREAM_NAME": "jobs",
            "REDIS_GROUP_NAME": "workers",
            "LOG_LEVEL": "INFO",
            "LOG_FORMAT": "JSON",
        }
        try:
            for port in (system.port, free_port(), free_port()):
                system.start("scheduler", environment={**shared, "HTTP_ADDR": f":{port}"})
            system.until_up()
            for number in (1, 2):
                own = {"WORKER_ID": f"worker-{number}", "WORKER_HTTP_ADDR": f":{free_port()}"}
                system.start("worker", environment={**shared, **own})
            system.until(lambda: alive(system), lambda names: names == {"worker-1", "worker-2"})
            yield system
        finally:
            for process in system.started:
                process.terminate()
            for process in system.started:
                process.wait(60)
            runner.run(lent.__aexit__(None, None, None))
            valkey.remove()
            etcd.remove()


def walk(system: System) -> None:
    """Send the requests of the older system, and check the responses."""
    asked = {"payload": "task data", "priority": 5, "dedupe_key": "unique-key", "schedule_at": "2024-12-25T10:00:00Z"}
    job = system.ask("POST", "/jobs", asked)
    assert {"id", "status", "created_at"} <= job.keys()
    assert system.ask("POST", "/jobs", asked)["id"] == job["id"], "a key makes one job"
    done = system.until(lambda: system.ask("GET", f"/jobs/{job['id']}"), lambda one: one["status"] == "completed")
    assert done["worker_id"] in {"worker-1", "worker-2"}
    assert done["started_at"] <= done["completed_at"]
    assert isinstance(system.ask("GET", "/jobs?status=pending"), list)
    health = system.until(lambda: system.ask("GET", "/health"), lambda answer: answer["status"] == "healthy")
    assert health["coordinator_health"] is True
    assert {"instance_id", "is_leader", "timestamp"} <= health.keys()
    leader = system.until(lambda: system.ask("GET", "/leader"), lambda answer: bool(answer["current_leader"]))
    assert leader["is_leader"] == (leader["current_leader"] == leader["instance_id"])
    counted = {"timestamp", "pending_jobs", "queued_jobs", "running_jobs", "completed_jobs", "failed_jobs"}
    assert (
        counted | {"jobs_dispatched", "last_dispatch"}
        <= system.ask("GET", "/metrics", Accept="application/json").keys()
    )


def prove(system: System, *, requests: int = 10_000, at_once: int = 100) -> str:
    """Run the document's load with its own tool; no request fails, and every job is completed."""
    ab = shutil.which("ab")
    assert ab is not None, "no ab: install Debian's apache2-utils"
    (system.folder / "job.json").write_text(json.dumps({"payload": "task data", "priority": 5}))
    with cluster(system):
        walk(system)
        before, begun = states(system)["completed"], time.monotonic()
        output = subprocess.run(
            [
                ab,
                "-n",
                str(requests),
                "-c",
                str(at_once),
                "-p",
                "job.json",
                "-T",
                "application/json",
                f"{system.url}/jobs",
            ],
            cwd=system.folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        system.until(lambda: states(system)["completed"], lambda count: count == before + requests, seconds=300)
        seconds = time.monotonic() - begun
        left = {name: count for name, count in states(system).items() if count and name != "completed"}
    figures = dict(re.findall(r"^([A-Z][\w -]+?):? +([\d.]+)", output, re.MULTILINE))
    assert float(figures["Complete requests"]) == requests, output
    assert float(figures["Failed requests"]) == 0, output
    assert "Non-2xx" not in output, output
    assert not left, left
    p99 = re.search(r"^ *99% +(\d+)", output, re.MULTILINE)
    return (
        f"{requests:,} requests, {at_once} at once: 0 failed, {figures['Requests per second']} a second, p99"
        f" {p99[1] if p99 else '?'} ms; all {requests:,} jobs completed {seconds:.1f} s after the first request"
    )

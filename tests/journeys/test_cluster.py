"""A cluster with etcd: the leader dies or is stopped, nodes of etcd die and come back, and jobs run all the while.

The long versions are proofs: leader-killed, leader-stopped, etcd-nodes.
"""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from journeys.system import System
from proofs.cluster import process_cluster, response_of
from proofs.processes import kill
from proofs.recurring import judge, tick

ALL = {"scheduler", "api", "worker"}
#: Each scheduler learns of it with its next heartbeat, three seconds later at the most.
TRANSFER_SECONDS = 12.0


def leading(system: System) -> bool:
    return bool(response_of(system, "/leader").get("is_leader"))


def test_a_leader_that_is_stopped_or_killed_is_followed_by_the_other_and_no_occurrence_is_lost_or_doubled(
    system: System,
) -> None:
    with process_cluster(system, schedulers=2, nodes=1) as running:
        running.start(workers=1)
        tick(running.first)
        old = running.leader()
        other, former = running.systems[1 - old], running.systems[old]
        os.killpg(running.processes[old].pid, signal.SIGSTOP)
        system.until(lambda: leading(other), bool)
        os.killpg(running.processes[old].pid, signal.SIGCONT)
        first_word = system.until(lambda: response_of(former, "/leader"), bool)
        assert not first_word["is_leader"], "stopped past its term, it must know without asking that it leads no more"
        instance = other.ask("GET", "/leader")["instance_id"]
        system.until(lambda: response_of(former, "/leader"), lambda seen: seen.get("current_leader") == instance)
        kill(running.processes[1 - old])
        system.until(lambda: leading(former), bool)
        assert judge(former) > 0


def test_a_leader_that_is_told_to_go_hands_the_lead_over_before_it_ends(system: System) -> None:
    with process_cluster(system, schedulers=2, nodes=1) as running:
        running.start(workers=0)
        old = running.leader()
        other = running.systems[1 - old]
        running.processes[old].terminate()
        running.processes[old].wait()
        cluster = other.ask("GET", "/v1/cluster")
        gone = f"-{running.processes[old].pid}"
        assert not (cluster["current_leader"] or "").endswith(gone), "it resigned, and did not wait for its term"
        assert not any(member["worker_id"].endswith(gone) for member in cluster["members"])
        system.until(lambda: leading(other), bool)


@pytest.mark.parametrize("nodes", [0, 1], ids=["database", "etcd"])
def test_the_lead_is_transferred_on_request_and_no_occurrence_is_lost_or_doubled(system: System, nodes: int) -> None:
    with process_cluster(system, schedulers=2, nodes=nodes) as running:
        running.start(workers=1)
        tick(running.first)
        for _ in range(2):
            old = running.leader()
            new = running.systems[1 - old]
            instance = new.ask("GET", "/leader")["instance_id"]
            begun = time.monotonic()
            told_ = json.loads(running.systems[old].rota("leader", "transfer", instance, "-o", "json"))
            assert (told_["current_leader"], told_["previous_leader"] != instance) == (instance, True)
            assert running.leader(but=old) == 1 - old
            assert time.monotonic() - begun < TRANSFER_SECONDS
            assert new.ask("GET", "/v1/cluster")["current_leader"] == instance
        terms = new.rota("leader", "show", "-o", "json")
        assert next(one["name"] for one in json.loads(terms)) == instance
        last, *_ = new.ask("GET", "/v1/events?action=cluster.transfer_lead")["items"]
        assert (last["target"], last["surface"]) == (instance, "cli")
        assert judge(running.first) > 0


def test_without_a_quorum_of_etcd_jobs_run_health_says_degraded_and_all_heals_without_a_restart(system: System) -> None:
    with process_cluster(system, schedulers=1) as running:
        running.start(workers=1)
        api = running.first
        running.leader()
        cluster = system.until(
            lambda: api.ask("GET", "/v1/cluster"), lambda seen: {one["role"] for one in seen["members"]} == ALL
        )
        assert cluster["coordinator"] == "etcd"
        running.nodes.kill(running.nodes.nodes[0])
        assert api.ask("GET", "/v1/cluster")["current_leader"] == cluster["current_leader"]
        api.rota("cluster", "set", "log_level", "debug")
        system.until(system.logs, lambda seen: seen.count("log level is debug") >= 2)
        running.nodes.kill(running.nodes.nodes[1])
        system.until(running.health, lambda seen: seen == {"degraded"})
        assert "degraded" in api.rota("status")
        job = api.ask("POST", "/v1/jobs", {"type": "echo", "payload": 1})
        system.until(lambda: api.job(job["id"])["status"], lambda status: status == "completed")
        for node in running.nodes.nodes[:2]:
            running.nodes.start(node)
        system.until(running.health, lambda seen: seen == {"healthy"})
        running.leader()
        assert all(process.poll() is None for process in system.started)


def test_without_etcd_the_store_coordinates_and_the_command_line_shows_and_sets(system: System) -> None:
    system.start("standalone", "--port", str(system.port), "--db", "one.db", "--worker-id", "ada")
    system.until_up()
    system.until(lambda: leading(system), bool)
    members = system.until(lambda: system.rota("cluster", "members"), lambda seen: "ada" in seen)
    assert {line.split()[0] for line in members.splitlines()} == {"ROLE", *ALL}
    assert "log_level" not in system.rota("cluster", "show")
    system.rota("cluster", "set", "log_level", "DEBUG")
    shown = system.rota("cluster", "show")
    assert "database, answers" in shown
    assert "debug" in shown
    system.until(system.logs, lambda seen: "log level is debug" in seen)
    system.rota("cluster", "unset", "log_level")
    system.until(system.logs, lambda seen: "log level is info" in seen)
    system.rota("cluster", "set", "colour", "red", code=2)
    assert "configuration" not in system.rota("queues", "list"), "where the store keeps it is nobody's business"

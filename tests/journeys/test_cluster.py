"""A cluster with etcd: the leader dies or is stopped, nodes of etcd die and come back, and jobs run all the while.

The long versions are proofs: leader-killed, leader-stopped, etcd-nodes.
"""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from journeys.stage import Stage
from proofs.cast import kill
from proofs.cluster import told, troop
from proofs.recurring import judge, tick

ALL = {"scheduler", "api", "worker"}
#: Each scheduler learns of it with its next heartbeat, three seconds later at the most.
TRANSFER_SECONDS = 12.0


def leading(stage: Stage) -> bool:
    return bool(told(stage, "/leader").get("is_leader"))


def test_a_leader_that_is_stopped_or_killed_is_followed_by_the_other_and_no_occurrence_is_lost_or_doubled(
    stage: Stage,
) -> None:
    with troop(stage, schedulers=2, nodes=1) as cast:
        cast.start(workers=1)
        tick(cast.first)
        old = cast.leader()
        other, former = cast.stages[1 - old], cast.stages[old]
        os.killpg(cast.processes[old].pid, signal.SIGSTOP)
        stage.until(lambda: leading(other), bool)
        os.killpg(cast.processes[old].pid, signal.SIGCONT)
        first_word = stage.until(lambda: told(former, "/leader"), bool)
        assert not first_word["is_leader"], "stopped past its term, it must know without asking that it leads no more"
        instance = other.ask("GET", "/leader")["instance_id"]
        stage.until(lambda: told(former, "/leader"), lambda seen: seen.get("current_leader") == instance)
        kill(cast.processes[1 - old])
        stage.until(lambda: leading(former), bool)
        assert judge(former) > 0


def test_a_leader_that_is_told_to_go_hands_the_lead_over_before_it_ends(stage: Stage) -> None:
    with troop(stage, schedulers=2, nodes=1) as cast:
        cast.start(workers=0)
        old = cast.leader()
        other = cast.stages[1 - old]
        cast.processes[old].terminate()
        cast.processes[old].wait()
        cluster = other.ask("GET", "/v1/cluster")
        gone = f"-{cast.processes[old].pid}"
        assert not (cluster["current_leader"] or "").endswith(gone), "it resigned, and did not wait for its term"
        assert not any(member["worker_id"].endswith(gone) for member in cluster["members"])
        stage.until(lambda: leading(other), bool)


@pytest.mark.parametrize("nodes", [0, 1], ids=["database", "etcd"])
def test_the_lead_is_transferred_on_request_and_no_occurrence_is_lost_or_doubled(stage: Stage, nodes: int) -> None:
    with troop(stage, schedulers=2, nodes=nodes) as cast:
        cast.start(workers=1)
        tick(cast.first)
        for _ in range(2):
            old = cast.leader()
            new = cast.stages[1 - old]
            instance = new.ask("GET", "/leader")["instance_id"]
            begun = time.monotonic()
            told_ = json.loads(cast.stages[old].rota("leader", "transfer", instance, "-o", "json"))
            assert (told_["current_leader"], told_["previous_leader"] != instance) == (instance, True)
            assert cast.leader(but=old) == 1 - old
            assert time.monotonic() - begun < TRANSFER_SECONDS
            assert new.ask("GET", "/v1/cluster")["current_leader"] == instance
        terms = new.rota("leader", "show", "-o", "json")
        assert next(one["name"] for one in json.loads(terms)) == instance
        last, *_ = new.ask("GET", "/v1/events?action=cluster.transfer_lead")["items"]
        assert (last["target"], last["surface"]) == (instance, "cli")
        assert judge(cast.first) > 0


def test_without_a_quorum_of_etcd_jobs_run_health_says_degraded_and_all_heals_without_a_restart(stage: Stage) -> None:
    with troop(stage, schedulers=1) as cast:
        cast.start(workers=1)
        api = cast.first
        cast.leader()
        cluster = stage.until(
            lambda: api.ask("GET", "/v1/cluster"), lambda seen: {one["role"] for one in seen["members"]} == ALL
        )
        assert cluster["coordinator"] == "etcd"
        cast.nodes.kill(cast.nodes.nodes[0])
        assert api.ask("GET", "/v1/cluster")["current_leader"] == cluster["current_leader"]
        api.rota("cluster", "set", "log_level", "debug")
        stage.until(stage.logs, lambda seen: seen.count("log level is debug") >= 2)
        cast.nodes.kill(cast.nodes.nodes[1])
        stage.until(cast.health, lambda seen: seen == {"degraded"})
        assert "degraded" in api.rota("status")
        job = api.ask("POST", "/v1/jobs", {"type": "echo", "payload": 1})
        stage.until(lambda: api.job(job["id"])["status"], lambda status: status == "completed")
        for node in cast.nodes.nodes[:2]:
            cast.nodes.start(node)
        stage.until(cast.health, lambda seen: seen == {"healthy"})
        cast.leader()
        assert all(process.poll() is None for process in stage.started)


def test_without_etcd_the_store_coordinates_and_the_command_line_shows_and_sets(stage: Stage) -> None:
    stage.start("standalone", "--port", str(stage.port), "--db", "one.db", "--worker-id", "ada")
    stage.until_up()
    stage.until(lambda: leading(stage), bool)
    members = stage.until(lambda: stage.rota("cluster", "members"), lambda seen: "ada" in seen)
    assert {line.split()[0] for line in members.splitlines()} == {"ROLE", *ALL}
    assert "log_level" not in stage.rota("cluster", "show")
    stage.rota("cluster", "set", "log_level", "DEBUG")
    shown = stage.rota("cluster", "show")
    assert "database, answers" in shown
    assert "debug" in shown
    stage.until(stage.logs, lambda seen: "log level is debug" in seen)
    stage.rota("cluster", "unset", "log_level")
    stage.until(stage.logs, lambda seen: "log level is info" in seen)
    stage.rota("cluster", "set", "colour", "red", code=2)
    assert "configuration" not in stage.rota("queues", "list"), "where the store keeps it is nobody's business"

"""The image, the compose file and the manifests: valid by their schemas, and by rules of this project.

No image can be pulled where these tests run, so nothing is built here; what a container would be told is checked
against what Rota understands.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from rota.api.auth import PUBLIC_PATHS
from rota.cli.tree import build
from rota.settings import OPTIONS
from rota.telemetry.metric_definitions import ALL_METRICS

ROOT = Path(__file__).parent.parent.parent
TOOLS = Path(sys.executable).parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
OURS: dict[str, dict[str, Any]] = {
    name: service for name, service in COMPOSE["services"].items() if service["image"].startswith("rota")
}
MANIFESTS: list[dict[str, Any]] = [
    document
    for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
DEPLOYMENTS = [one for one in MANIFESTS if one["kind"] == "Deployment"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
KNOWN = {f"ROTA_{name.upper()}" for name in OPTIONS} | {"HEALTH_URL"}


def names(one: dict[str, Any]) -> str:
    return f"{one['kind']}/{one['metadata']['name']}"


def container(deployment: dict[str, Any]) -> dict[str, Any]:
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def ran(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="hadolint's wheel is for Linux")
def test_hadolint_accepts_the_dockerfile() -> None:
    ran(str(TOOLS / "hadolint"), "Dockerfile")


def test_the_compose_file_keeps_its_schema() -> None:
    ran(str(TOOLS / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", "compose.yaml")


@pytest.mark.parametrize("manifest", MANIFESTS, ids=names)
def test_a_manifest_keeps_kubernetes_schema(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


def test_the_image_runs_as_a_number_that_is_not_root() -> None:
    final = DOCKERFILE.split("FROM ${BASE}\n")[-1]
    (user,) = re.findall(r"^USER (\d+):\d+$", final, re.MULTILINE)
    assert int(user) > 0
    for deployment in DEPLOYMENTS:
        assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == int(user)


def test_all_that_the_image_copies_reaches_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    copied = [shlex.split(line)[1:-1] for line in DOCKERFILE.splitlines() if line.startswith("COPY ")]
    for path in (path for paths in copied if not paths[0].startswith("--from") for path in paths):
        assert f"!{path}" in ignored
        assert (ROOT / path).exists()


def test_the_image_installs_nothing_without_a_hash() -> None:
    installs = re.findall(r"pip install [^\n]*", DOCKERFILE)
    assert len(installs) == 3
    for command in installs:
        assert "--require-hashes" in command or "--no-index" in command


def test_each_system_has_its_profile_and_an_api_of_its_own() -> None:
    offered = {profile for service in COMPOSE["services"].values() for profile in service["profiles"]}
    assert offered == {"embedded", "http-workers", "postgres", "mysql", "cluster"}
    for profile in offered:
        serving = [one for one in OURS.values() if profile in one["profiles"] and "ports" in one]
        assert len(serving) == 1
        assert serving[0]["networks"]["default"]["aliases"] == ["api"]


def test_workers_can_be_scaled() -> None:
    worker = OURS["worker"]
    assert worker["profiles"] == ["http-workers", "postgres", "mysql"]
    assert not {"container_name", "ports", "hostname"} & set(worker)
    assert worker["environment"]["ROTA_API_URL"] == "http://api:8080"
    assert "ROTA_STORE" not in worker["environment"], "a worker with a store would not work over HTTP"
    assert "ROTA_WORKER_ID" not in worker["environment"], "three of one name would be one"


def test_the_nodes_of_etcd_know_each_other() -> None:
    nodes = {name: one for name, one in COMPOSE["services"].items() if name.startswith("etcd-")}
    assert len(nodes) == 3
    for name, node in nodes.items():
        assert f"{name}=http://{name}:2380" in node["build"]["dockerfile_inline"]
        assert f"--name={name}" in node["command"]
        assert node["volumes"] == [f"{name}:/data"]
    for service in ("scheduler-cluster", "api-cluster", "worker-cluster"):
        coordinator = OURS[service]["environment"]["ROTA_COORDINATOR"]
        assert all(f"{name}:2379" in coordinator for name in nodes)
        assert set(nodes) < set(OURS[service]["depends_on"])
    for scalable in ("scheduler-cluster", "worker-cluster"):
        assert not {"container_name", "ports", "hostname"} & set(OURS[scalable])


@pytest.mark.parametrize("name", OURS)
def test_a_service_can_harm_little(name: str) -> None:
    service = OURS[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert service["environment"]["ROTA_TOKEN"].startswith("${ROTA_TOKEN:?")


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=names)
def test_a_pod_can_harm_little(deployment: dict[str, Any]) -> None:
    spec, inner = deployment["spec"]["template"]["spec"], container(deployment)["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    assert inner["readOnlyRootFilesystem"] is True
    assert inner["allowPrivilegeEscalation"] is False
    assert inner["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=names)
def test_probes_ask_where_no_token_is_needed(deployment: dict[str, Any]) -> None:
    one = container(deployment)
    (port,) = one["ports"]
    for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert one[probe]["httpGet"] == {"path": path, "port": port["name"]}
        assert path in PUBLIC_PATHS
    listening = {variable["name"]: variable.get("value", "") for variable in one["env"]}
    bound = listening.get("ROTA_WORKER_ADDRESS") or f"{listening['ROTA_HOST']}:{listening['ROTA_PORT']}"
    assert bound == f"0.0.0.0:{port['containerPort']}"
    assert listening["ROTA_BEHIND_PROXY"], "or it refuses to listen there without TLS"


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=names)
def test_every_deployment_has_a_disruption_budget(deployment: dict[str, Any]) -> None:
    selectors = [one["spec"]["selector"] for one in MANIFESTS if one["kind"] == "PodDisruptionBudget"]
    assert deployment["spec"]["selector"] in selectors
    assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]


def test_the_autoscaler_goes_by_a_metric_that_we_show() -> None:
    (scaler,) = (one for one in MANIFESTS if one["kind"] == "HorizontalPodAutoscaler")
    (metric,) = (one["external"]["metric"] for one in scaler["spec"]["metrics"])
    (shown,) = (one for one in ALL_METRICS if one.name == metric["name"])
    assert set(metric["selector"]["matchLabels"]) <= set(shown.labels)
    assert scaler["spec"]["scaleTargetRef"]["name"] in {one["metadata"]["name"] for one in DEPLOYMENTS}


def container_arguments() -> Iterator[tuple[str, list[str], set[str]]]:
    """Return the command line of each container, and the names in its environment."""
    for name, service in OURS.items():
        yield name, service["command"], set(service["environment"])
    for deployment in DEPLOYMENTS:
        one = container(deployment)
        yield names(deployment), one["args"], {variable["name"] for variable in one["env"]}


@pytest.mark.parametrize(
    ("command", "environment"), [pytest.param(*rest, id=name) for name, *rest in container_arguments()]
)
def test_rota_understands_what_a_container_is_told(command: list[str], environment: set[str]) -> None:
    assert build().parse_args(command).command == command[0]
    assert environment <= KNOWN


def test_running_jobs_have_time_to_finish_before_a_container_is_killed() -> None:
    for name, service in OURS.items():
        assert service["stop_grace_period"] == "45s", name
    (worker,) = (one for one in DEPLOYMENTS if one["metadata"]["name"] == "rota-worker")
    (drain,) = (one["value"] for one in container(worker)["env"] if one["name"] == "ROTA_DRAIN_TIMEOUT")
    assert worker["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > int(drain.removesuffix("s"))


def test_the_trial_of_the_containers_asks_what_the_api_understands() -> None:
    """It asked with `wait=60s`, which the API refuses: a wait is a number of seconds."""
    waits = re.findall(r"wait=([^\"&\s]*)", (ROOT / "tools" / "containers").read_text(encoding="utf-8"))
    assert waits
    assert all(0 <= float(wait) <= 3_600 for wait in waits)

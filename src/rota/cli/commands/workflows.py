"""`rota workflows`: submit a graph, list and show workflows, draw them, retry, cancel, skip."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rota.cli.commands.arguments import api_client_of, encrypted, is_confirmed, json_of, printer_of
from rota.cli.commands.jobs import listed
from rota.cli.exits import CommandFailed, Exit
from rota.cli.output import clean, column, say

COLUMNS: Final = (
    column("id"),
    column("name"),
    column("state"),
    ("done", lambda one: f"{one['done']}/{one['node_count']}"),
    ("progress", lambda one: progress_text(one["progress"])),
    column("created_at"),
)
NODE_COLUMNS: Final = (
    column("name"),
    ("state", lambda node: shown_state(node)),  # noqa: PLW0108 - defined below
    column("type"),
    column("attempts"),
    column("job_id"),
    ("after", lambda node: after_text(node["after"])),
)
#: How many parents of a node are named.
_NAMED: Final = 3


def progress_text(progress: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(progress.items()))


def shown_state(node: Mapping[str, Any]) -> str:
    state = "skipped" if node["is_skipped"] else str(node["state"])
    return f"{state} ({node['reason']})" if node["reason"] and not node["is_skipped"] else state


def after_text(after: Sequence[Any]) -> str:
    named = [one if isinstance(one, str) else f"{one.get('node') or one['job']} ({one['need']})" for one in after]
    return ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED} more" if len(named) > _NAMED else "")


def submit(options: argparse.Namespace) -> int:
    graph = json_of(options.graph, "graph")
    if not isinstance(graph, dict) or not isinstance(graph.get("nodes"), list):
        fix = 'give an object such as {"name": "etl", "nodes": [{"name": "a", "type": "extract"}]}'
        raise CommandFailed("graph: not an object with a list of nodes", fix=fix, code=Exit.USAGE)
    api = api_client_of(options)
    nodes = [encrypted(api, node, has_id=False) if isinstance(node, dict) else node for node in graph["nodes"]]
    workflow = api.post("/v1/workflows", {**graph, "nodes": nodes})
    printer = printer_of(options)
    if printer.form != "table":
        printer.record(workflow)
        return Exit.OK
    if not options.quiet:
        say(f"submitted {clean(workflow['name'])}: {workflow['node_count']} jobs")
    print(workflow["id"])
    return Exit.OK


def list_workflows(options: argparse.Namespace) -> int:
    workflows = listed(api_client_of(options), "/v1/workflows", options.limit)
    printer_of(options).records(workflows, COLUMNS, empty="no workflows")
    return Exit.OK


def get(options: argparse.Namespace) -> int:
    workflow = api_client_of(options).get(f"/v1/workflows/{options.id}")
    printer = printer_of(options)
    if printer.form != "table":
        printer.record(workflow)
        return Exit.OK
    say(f"{clean(workflow['name'])}: {workflow['state']} ({progress_text(workflow['progress'])})")
    printer.records(workflow["nodes"], NODE_COLUMNS, empty="no nodes")
    return Exit.OK


def graph(options: argparse.Namespace) -> int:
    workflow = api_client_of(options).get(f"/v1/workflows/{options.id}")
    lines = mermaid(workflow) if options.mermaid else tree(workflow)
    for line in lines:
        print(clean(line))
    return Exit.OK


def tree(workflow: Mapping[str, Any]) -> Iterator[str]:
    """Draw a graph as lines: each node with what it waits for."""
    for node in workflow["nodes"]:
        behind = f"  <- {after_text(node['after'])}" if node["after"] else ""
        yield f"{node['name']} [{shown_state(node)}]{behind}"


def mermaid(workflow: Mapping[str, Any]) -> Iterator[str]:
    """Draw a graph in the language of Mermaid, which many pages and editors show as a diagram."""
    yield "flowchart TD"
    places = {node["name"]: node["position"] for node in workflow["nodes"]}
    for node in workflow["nodes"]:
        label = f"{node['name']}<br>{shown_state(node)}".replace('"', "#quot;")
        yield f'    n{node["position"]}["{label}"]'
    for node in workflow["nodes"]:
        for parent in node["after"]:
            form = {"node": parent, "need": "success"} if isinstance(parent, str) else parent
            need = form.get("need", "success")
            arrow = "-->" if need == "success" else f"-.->|{need}|"
            start = f"n{places[form['node']]}" if form.get("node") else f"j{form['job']}"
            yield f"    {start} {arrow} n{node['position']}"


def cancel(options: argparse.Namespace) -> int:
    if not is_confirmed(options, f"cancel all jobs of workflow {options.id}"):
        return Exit.OK
    return _say_state(options, api_client_of(options).post(f"/v1/workflows/{options.id}/cancel"))


def retry(options: argparse.Namespace) -> int:
    what = "the failed nodes" if options.node is None else f"node {options.node}"
    if not is_confirmed(options, f"run {what} of workflow {options.id} again, and all nodes after"):
        return Exit.OK
    body = {} if options.node is None else {"node": options.node}
    return _say_state(options, api_client_of(options).post(f"/v1/workflows/{options.id}/retry", body))


def skip(options: argparse.Namespace) -> int:
    if not is_confirmed(options, f"skip node {options.node} of workflow {options.id}"):
        return Exit.OK
    return _say_state(options, api_client_of(options).post(f"/v1/workflows/{options.id}/skip", {"node": options.node}))


def _say_state(options: argparse.Namespace, workflow: Mapping[str, Any]) -> int:
    printer = printer_of(options)
    if printer.form != "table":
        printer.record(workflow)
    else:
        say(f"{clean(workflow['name'])} is {workflow['state']}: {progress_text(workflow['progress'])}")
    return Exit.OK

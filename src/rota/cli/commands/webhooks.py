"""`rota webhooks`: create, list, rotate, enable, test and remove webhooks; and the log of deliveries."""

from __future__ import annotations

import argparse

from rota.cli.commands.arguments import api_client_of, is_confirmed, printer_of, show_secret, words_of
from rota.cli.exits import Exit
from rota.cli.output import column, say


def add(options: argparse.Namespace) -> int:
    body = {"name": options.name, "url": options.url, "events": words_of(options.events)}
    if options.queues is not None:
        body["queues"] = words_of(options.queues)
    return show_secret(options, "webhook", api_client_of(options).post("/v1/webhooks", body))


def list_webhooks(options: argparse.Namespace) -> int:
    webhooks = api_client_of(options).get("/v1/webhooks")["items"]
    columns = (
        column("id"),
        column("name"),
        column("url"),
        ("events", lambda one: ",".join(one["events"])),
        ("queues", lambda one: ",".join(one["queues"]) or "all"),
        ("enabled", lambda one: one["is_enabled"]),
        ("reason", lambda one: one["disabled_reason"]),
    )
    printer_of(options).records(webhooks, columns, empty="no webhooks")
    return Exit.OK


def get(options: argparse.Namespace) -> int:
    printer_of(options).record(api_client_of(options).get(_path(options)))
    return Exit.OK


def rotate(options: argparse.Namespace) -> int:
    body = {"overlap": options.overlap} if options.overlap else {}
    return show_secret(options, "webhook", api_client_of(options).post(f"{_path(options)}/rotate", body))


def enable(options: argparse.Namespace) -> int:
    webhook = api_client_of(options).post(f"{_path(options)}/enable")
    say(f"enabled {webhook['name']}")
    return Exit.OK


def test(options: argparse.Namespace) -> int:
    """Send a test message, and print the job that delivers it."""
    job = api_client_of(options).post(f"{_path(options)}/test")
    say(f"a test message is on its way; see: rota webhooks deliveries {options.webhook}")
    print(job["id"])
    return Exit.OK


def deliveries(options: argparse.Namespace) -> int:
    records = api_client_of(options).get(f"{_path(options)}/deliveries", limit=options.limit)["items"]
    columns = (
        column("id"),
        column("event"),
        column("subject"),
        column("status"),
        column("attempts"),
        column("created_at"),
        column("next_attempt_at"),
        ("error", lambda one: one["error"]["message"][:80] if one["error"] else ""),
    )
    printer_of(options).records(records, columns, empty="no deliveries")
    return Exit.OK


def remove(options: argparse.Namespace) -> int:
    if not is_confirmed(options, f"remove the webhook {options.webhook}"):
        return Exit.OK
    webhook = api_client_of(options).request("DELETE", _path(options))
    say(f"removed {webhook['name']}")
    return Exit.OK


def _path(options: argparse.Namespace) -> str:
    return f"/v1/webhooks/{options.webhook}"

"""Write the reference pages from the code: `make docs`. A test compares them, so that they cannot go stale.

What a page says by hand stands above the marker line; what follows it is made here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from rota.api.router import Route
from rota.api.routes import ROUTES
from rota.cli.tree import build
from rota.core.access import DESCRIPTIONS, QUEUE_ACTIONS, ROLES
from rota.settings import OPTIONS, Settings, shown
from rota.telemetry.metric_definitions import ALL_METRICS, MetricSource

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
MARKER = "<!-- Below this line the page is made by `make docs`. -->"


def command_lines(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Return a section for every command."""
    for action in parser._actions:  # noqa: SLF001 - argparse keeps them so
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for below in action.choices.values():
                if any(isinstance(one, argparse._SubParsersAction) for one in below._actions):  # noqa: SLF001
                    yield from command_lines(below)
                else:
                    yield from _command(below)


def _command(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"\n### `{parser.prog}`\n\n{(parser.description or '').capitalize()}.\n"
    own = [
        action
        for group in parser._action_groups  # noqa: SLF001 - argparse keeps them so
        if group.title != "everywhere"
        for action in group._group_actions  # noqa: SLF001 - as above
        if action.dest != "help"
    ]
    if own:
        yield "| argument | meaning |\n|---|---|"
    for action in own:
        name = ", ".join(action.option_strings) or action.dest.upper()
        yield f"| `{name}` | {action.help or ''} |"


def route_lines() -> Iterator[str]:
    """Return a table of routes for every family, in the order of their first routes; older paths come last."""
    order = list(dict.fromkeys(route.tag for route in ROUTES))

    def place(route: Route) -> tuple[bool, int]:
        return route.tag == _OLDER, order.index(route.tag)

    for family, routes in groupby(sorted(ROUTES, key=place), key=lambda route: route.tag):
        yield f"\n### {family}\n\n| route | action | what it does |\n|---|---|---|"
        for route in routes:
            yield f"| `{route.method} {route.path}` | {route.action} | {route.summary} |"


_OLDER = "older paths"


def access_lines() -> Iterator[str]:
    """Return a table of actions with the roles that have them."""
    yield f"| action | allows to | by queue | {' | '.join(ROLES)} |\n|---|---|---|{'---|' * len(ROLES)}"
    for action, description in DESCRIPTIONS.items():
        marks = " | ".join("yes" if action in granted else "" for granted in ROLES.values())
        yield f"| `{action}` | {description} | {'yes' if action in QUEUE_ACTIONS else ''} | {marks} |"


def setting_lines() -> Iterator[str]:
    """Return a table of settings."""
    yield "| setting | environment | default | what it is for |\n|---|---|---|---|"
    for name, default, _ in shown(Settings()):
        names = ", ".join(f"`{one}`" for one in (f"ROTA_{name.upper()}", *OPTIONS[name].older))
        yield f"| `{name}` | {names} | {f'`{default}`' if default else ''} | {OPTIONS[name].help} |"


def metric_lines() -> Iterator[str]:
    """Return a table of metrics for every place that shows them."""
    for source, metrics in groupby(ALL_METRICS, key=lambda metric: metric.source):
        yield f"\n### {_SHOWN_BY[source]}\n\n| metric | kind | labels | what it says |\n|---|---|---|---|"
        for metric in metrics:
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


_SHOWN_BY = {
    MetricSource.EVERYWHERE: "Of the process that is asked",
    MetricSource.API: "Of the whole, shown by the API",
    MetricSource.WORKER: "Of one worker, shown by its own endpoint",
}
PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "access.md": access_lines,
    "cli.md": lambda: command_lines(build()),
    "http.md": route_lines,
    "metrics.md": metric_lines,
    "settings.md": setting_lines,
}


def made(name: str) -> str:
    """Return a page as it should be: the hand-written text, and the generated part."""
    written = (FOLDER / name).read_text(encoding="utf-8").partition(MARKER)[0]
    return written + MARKER + "\n" + "\n".join(PAGES[name]()) + "\n"


if __name__ == "__main__":
    for page in PAGES:
        (FOLDER / page).write_text(made(page), encoding="utf-8")

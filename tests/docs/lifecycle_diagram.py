"""Generates the lifecycle diagram from the table in the core, and writes it into the page about it.

Run as a program, it brings the page up to date: ``python tests/docs/lifecycle_diagram.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from rota.core.job import first_state
from rota.core.lifecycle import FINISHED, MOVES, Event, State

PAGE: Final = Path(__file__).parents[2] / "docs" / "explanation" / "life-of-a-job.md"
END: Final = "<!-- end -->"

Moves = Mapping[State, Mapping[Event, State]]

_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
#: In which state a job begins, and when.
BIRTHS: Final = {
    first_state(_NOW, _NOW, blocked=False): "if it is due",
    first_state(_NOW + timedelta(days=1), _NOW, blocked=False): "if its time is later",
    first_state(_NOW, _NOW, blocked=True): "if it waits for other jobs",
}


def diagram(moves: Moves = MOVES) -> str:
    """Draw the table as a Mermaid diagram."""
    lines = [f"    [*] --> {state}: {when}" for state, when in BIRTHS.items()]
    lines += [
        f"    {state} --> {target}: {', '.join(event for event in events if events[event] is target)}"
        for state, events in moves.items()
        for target in dict.fromkeys(events.values())
    ]
    lines += [f"    {state} --> [*]" for state in moves if state in FINISHED]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def table(moves: Moves = MOVES) -> str:
    """Write the table as a table."""
    born = ", ".join(f"`{state}` {when}" for state, when in BIRTHS.items())
    rows = [f"| (new) | {born} |"]
    for state, events in moves.items():
        legal = ", ".join(f"{event} → `{target}`" for event, target in events.items())
        rows.append(f"| `{state}` | {legal or 'none: to run it again is a new job'} |")
    return "\n".join(["| from | what can happen, and where it leads |", "|---|---|", *rows])


def drawn(page: str, moves: Moves = MOVES) -> str:
    """Return the page with its drawings as they must be."""
    for name, drawing in (("diagram", diagram(moves)), ("table", table(moves))):
        begin = f"<!-- drawn: {name} -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(END)
        page = f"{before}{begin}\n{drawing}\n{END}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

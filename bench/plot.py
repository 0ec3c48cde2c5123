"""A plot of a run as SVG, written as plain text: one panel for each figure, one bar for each system."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from bench.results import Figure, Results, shown
from bench.workloads.protocol import Workload

WIDTH: Final = 760
NAMES: Final = 130
BARS: Final = 480
ROW: Final = 20
TITLE: Final = 34
OURS, THEIRS, WHISKER = "#1f6feb", "#9aa4b2", "#24292f"


def plot(results: Results, workloads: list[Workload], about: str) -> str:
    """Draw every figure of which several systems have one, or that has a ceiling."""
    panels = [panel for workload in workloads for panel in _panels(results, workload)]
    parts: list[str] = []
    top = 30
    for title, figures in panels:
        parts += _panel(results, title, figures, top)
        top += TITLE + ROW * len(figures) + 14
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top + 10}" '
        f'viewBox="0 0 {WIDTH} {top + 10}" font-family="sans-serif" font-size="12">'
    )
    frame = [f'<rect width="{WIDTH}" height="{top + 10}" fill="white"/>', _text(10, 18, about, size=10)]
    return "\n".join([head, *frame, *parts, "</svg>"]) + "\n"


def _panels(results: Results, workload: Workload) -> Iterator[tuple[str, list[Figure]]]:
    figures = results.of(workload.name)
    for what in dict.fromkeys(figure.what for figure in figures):
        shared = [figure for figure in figures if figure.what == what]
        more = "more is better" if shared[0].unit in {"/s", "x"} else "less is better"
        yield f"{workload.title}: {what}, {shared[0].unit} ({more})", shared


def _panel(results: Results, title: str, figures: list[Figure], top: int) -> Iterator[str]:
    yield _text(10, top + 14, title, weight="bold")
    largest = max(max(figure.values) for figure in figures)
    ordered = sorted(figures, key=lambda figure: figure.median, reverse=figures[0].unit in {"/s", "x"})
    for number, figure in enumerate(ordered):
        middle = top + TITLE + ROW * number
        yield _text(NAMES - 8, middle, figure.candidate.name, anchor="end")
        yield _bar(figure, middle, largest)
        note = shown(figure.median)
        ceiling = results.ceiling(figure.candidate.store, "C2") if figure.unit == "/s" else None
        if ceiling is not None:
            note += f"  ({figure.median / ceiling.median:.2f} x C2)"
        yield _text(NAMES + _length(max(figure.values), largest) + 6, middle, note)


def _bar(figure: Figure, middle: int, largest: float) -> str:
    colour = THEIRS if figure.candidate.is_peer else OURS
    bar = f'<rect x="{NAMES}" y="{middle - 11}" width="{_length(figure.median, largest)}" height="14" fill="{colour}"/>'
    low, high = (NAMES + _length(edge, largest) for edge in (min(figure.values), max(figure.values)))
    spread = f'<path d="M{low} {middle - 4}H{high}" stroke="{WHISKER}" stroke-width="1.5"/>'
    return bar + spread


def _length(value: float, largest: float) -> float:
    return round(max(value, 0.0) / largest * BARS, 1) if largest > 0 else 0.0


def _text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal", size: int = 12) -> str:
    style = f'text-anchor="{anchor}" font-weight={quoteattr(weight)} font-size="{size}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'

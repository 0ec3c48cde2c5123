"""The text that scrapers read, written by prometheus-client from our tallies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_open
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from rota.telemetry.catalogue import Kind
from rota.telemetry.tallies import Counts, Spreads, Tally

PLAIN_TEXT: Final = "text/plain"
OPEN_METRICS: Final = "application/openmetrics-text"


@dataclass(frozen=True, slots=True)
class Exposition:
    """A text and its media type."""

    text: bytes
    media: str


def is_asked_for(accept: str | None) -> bool:
    """Say whether an Accept header names a text of ours, as every scraper's does; `*/*` names nothing."""
    accepted = (accept or "").lower()
    return PLAIN_TEXT in accepted or OPEN_METRICS in accepted


def exposition(tallies: Sequence[Tally], accept: str | None) -> Exposition:
    """Write tallies in the form that an Accept header prefers: OpenMetrics where it is named."""
    if OPEN_METRICS in (accept or "").lower():
        text: bytes = generate_open(_Reading(tallies))  # type: ignore[no-untyped-call] # its authors left it untyped
        return Exposition(text, f"{OPEN_METRICS}; version=1.0.0; charset=utf-8")
    return Exposition(generate_latest(_Reading(tallies)), f"{PLAIN_TEXT}; version=0.0.4; charset=utf-8")


class _Reading(Collector):
    """Tallies as prometheus-client takes them. Not its registry: that one belongs to the user's own metrics."""

    def __init__(self, tallies: Iterable[Tally]) -> None:
        self._tallies = tallies

    def collect(self) -> Iterator[Metric]:
        """Give a family for each tally."""
        for tally in self._tallies:
            yield _numbers(tally) if isinstance(tally, Counts) else _histogram(tally)


def _numbers(counts: Counts) -> Metric:
    metric = counts.metric
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in counts.values.items():
        family.add_metric(labels, value)
    return family


def _histogram(spreads: Spreads) -> Metric:
    metric = spreads.metric
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    bounds = [*map(floatToGoString, metric.bounds), "+Inf"]
    for labels, cells in spreads.values.items():
        family.add_metric(labels, list(zip(bounds, accumulate(cells.counts), strict=True)), cells.total)
    return family

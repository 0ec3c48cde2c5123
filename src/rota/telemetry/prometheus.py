"""Prometheus exposition: metric values as text or OpenMetrics, written by prometheus-client."""

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

from rota.telemetry.metric_definitions import MetricKind
from rota.telemetry.metrics import Counts, Histograms, MetricValues

PLAIN_TEXT: Final = "text/plain"
OPEN_METRICS: Final = "application/openmetrics-text"


@dataclass(frozen=True, slots=True)
class Exposition:
    """The text and its media type."""

    text: bytes
    media: str


def is_asked_for(accept: str | None) -> bool:
    """Whether an Accept header names one of our formats, as every scraper's does; `*/*` does not count."""
    accepted = (accept or "").lower()
    return PLAIN_TEXT in accepted or OPEN_METRICS in accepted


def exposition(values: Sequence[MetricValues], accept: str | None) -> Exposition:
    """Write metric values in the format of an Accept header: OpenMetrics if it is named, else plain text."""
    if OPEN_METRICS in (accept or "").lower():
        text: bytes = generate_open(_MetricCollector(values))  # type: ignore[no-untyped-call] # its authors left it untyped
        return Exposition(text, f"{OPEN_METRICS}; version=1.0.0; charset=utf-8")
    return Exposition(generate_latest(_MetricCollector(values)), f"{PLAIN_TEXT}; version=0.0.4; charset=utf-8")


class _MetricCollector(Collector):
    """Metric values for prometheus-client. Not its default registry: that one belongs to the user's own metrics."""

    def __init__(self, values: Iterable[MetricValues]) -> None:
        self._values = values

    def collect(self) -> Iterator[Metric]:
        for values in self._values:
            yield _numbers(values) if isinstance(values, Counts) else _histogram(values)


def _numbers(counts: Counts) -> Metric:
    metric = counts.metric
    kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in counts.values.items():
        family.add_metric(labels, value)
    return family


def _histogram(histograms: Histograms) -> Metric:
    metric = histograms.metric
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    bounds = [*map(floatToGoString, metric.bounds), "+Inf"]
    for labels, buckets in histograms.values.items():
        family.add_metric(labels, list(zip(bounds, accumulate(buckets.counts), strict=True)), buckets.total)
    return family

"""Bands: a line has no order but that of its coming, so jobs of different urgency stand in different ones."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Band(StrEnum):
    """How urgent a line is. The bands are named in the order in which they are served."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


#: From this priority on a job is in the high band, and up to that one in the low band.
HIGH_FROM: Final = 7
LOW_UP_TO: Final = 3


def band_of(priority: int) -> Band:
    """Say in which band a job stands."""
    if priority >= HIGH_FROM:
        return Band.HIGH
    return Band.LOW if priority <= LOW_UP_TO else Band.NORMAL

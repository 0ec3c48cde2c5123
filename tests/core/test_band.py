from __future__ import annotations

from rota.core.band import Band, band_of
from rota.core.submission import HIGHEST_PRIORITY, LOWEST_PRIORITY


def test_every_priority_has_its_band() -> None:
    bands = [band_of(priority) for priority in range(LOWEST_PRIORITY, HIGHEST_PRIORITY + 1)]
    assert bands == [Band.LOW] * 3 + [Band.NORMAL] * 3 + [Band.HIGH] * 4


def test_the_bands_are_named_in_the_order_in_which_they_are_served() -> None:
    assert list(Band) == [Band.HIGH, Band.NORMAL, Band.LOW]

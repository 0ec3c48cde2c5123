from __future__ import annotations

from rota.core.queue import PriorityClass, priority_class_of
from rota.core.submission import HIGHEST_PRIORITY, LOWEST_PRIORITY


def test_every_priority_has_its_band() -> None:
    bands = [priority_class_of(priority) for priority in range(LOWEST_PRIORITY, HIGHEST_PRIORITY + 1)]
    assert bands == [PriorityClass.LOW] * 3 + [PriorityClass.NORMAL] * 3 + [PriorityClass.HIGH] * 4


def test_the_bands_are_named_in_the_order_in_which_they_are_served() -> None:
    assert list(PriorityClass) == [PriorityClass.HIGH, PriorityClass.NORMAL, PriorityClass.LOW]

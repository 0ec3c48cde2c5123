from __future__ import annotations

from rota.backoff import JitteredBackoff


def test_patience_grows_to_its_limit_and_begins_anew() -> None:
    patience = JitteredBackoff(lambda: 0.5, shortest=0.1, longest=5.0)
    waits = [patience.next() for _ in range(12)]
    assert waits == sorted(waits)
    assert waits[-1] == 5.0
    patience.reset()
    assert patience.next() == waits[0] == 0.1


def test_neighbours_do_not_come_back_together() -> None:
    assert JitteredBackoff(lambda: 0.0).next() < JitteredBackoff(lambda: 0.9).next()

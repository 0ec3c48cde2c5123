"""The shared vectors, each one a case: facts from the test suites of other crons, and the rules of Debian's."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from _pytest.mark.structures import ParameterSet

from core.cron_walker import DAY, Walker, instant_of
from rota.core.cron import InvalidCron, parse

HERE = Path(__file__).parent / "vectors"


def cases(name: str) -> list[ParameterSet]:
    vectors = [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    return [pytest.param(vector, id=f"{name} {vector['id']} {vector['expr']}") for vector in vectors]


@pytest.mark.parametrize("vector", [*cases("valid"), *cases("debian-rule")])
def test_a_vector_fires_when_it_should(vector: dict[str, object]) -> None:
    start = datetime.fromisoformat(str(vector["start"])).astimezone(ZoneInfo(str(vector["tz"])))
    expected = vector["expected_next"]
    assert isinstance(expected, list)

    found = parse(str(vector["expr"])).preview(start, len(expected))

    assert [moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for moment in found] == expected


@pytest.mark.parametrize("vector", cases("debian-rule"))
def test_the_walker_reads_the_rules_as_the_vectors_do(vector: dict[str, object]) -> None:
    at = instant_of(datetime.fromisoformat(str(vector["start"])))
    expected = vector["expected_next"]
    assert isinstance(expected, list)
    walker = Walker(str(vector["expr"]), ZoneInfo(str(vector["tz"])))

    for fire in expected:
        found = walker.first(at, at + 2 * 366 * DAY)
        assert found == instant_of(datetime.fromisoformat(fire))
        at = found


@pytest.mark.parametrize("vector", cases("invalid"))
def test_an_invalid_vector_is_refused_with_its_text_in_the_message(vector: dict[str, object]) -> None:
    with pytest.raises(InvalidCron) as refusal:
        parse(str(vector["expr"]))

    assert repr(vector["expr"]) in str(refusal.value)


@pytest.mark.parametrize("vector", cases("impossible"))
def test_a_date_that_never_occurs_is_refused(vector: dict[str, object]) -> None:
    with pytest.raises(InvalidCron, match="never occurs"):
        parse(str(vector["expr"]))

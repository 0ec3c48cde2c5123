"""A few seconds of mutated HTTP requests; `make fuzz-http` does it for minutes."""

from __future__ import annotations

from fuzz.fuzz_http import fuzz
from fuzz.http_corpus import case_of

SECONDS = 5
#: Five times what `make fuzz-http` allows: the server shares its processors with the other tests.
SLOWEST_SECONDS = 0.25


async def test_no_bytes_make_the_api_server_fail_or_wait_or_grow() -> None:
    report = await fuzz(seed=1, seconds=SECONDS, slowest_seconds=SLOWEST_SECONDS)
    assert not report.complaints, "\n".join([report.summary, *report.complaints])
    # Most cases are refused, and some are still requests.
    assert {200, 201, 400} <= set(report.statuses), report.summary


def test_a_case_depends_on_its_seed_and_number_only() -> None:
    assert case_of(1, 7) == case_of(1, 7)
    assert case_of(1, 7) != case_of(2, 7)

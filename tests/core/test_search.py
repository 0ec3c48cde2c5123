from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import NOW, job, unhurried
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId, to_text
from rota.core.lifecycle import FINISHED, State
from rota.core.search.parser import FIELDS, Search, parse_search
from rota.core.settlement import JobError

HOUR = timedelta(hours=1)
MAIL = job(
    State.DEAD,
    type="mail.send",
    queue="slow",
    tags=("red", "blue"),
    worker="w1",
    attempts=3,
    fence=3,
    priority=7,
    error=JobError("OSError", "Connection refused by 10.0.0.1"),
    payload='{"user": {"id": 42}, "lines": ["first", "second"], "paid": true}',
    run_at=NOW - 2 * HOUR,
    started_at=NOW - HOUR,
    created_at=NOW - 2 * HOUR,
    finished_at=NOW - HOUR,
)


def keeps(text: str) -> bool:
    """Whether a search finds the mail: by the conditions for indexes and by its terms."""
    search = parse_search(text, NOW)
    indexed = (
        (not search.states or MAIL.state in search.states)
        and (not search.types or MAIL.type in search.types)
        and (not search.queues or MAIL.queue in search.queues)
        and (search.tag is None or search.tag in MAIL.tags)
        and search.worker in {None, MAIL.worker}
        and (search.created_from is None or MAIL.created_at >= search.created_from)
        and (search.created_until is None or MAIL.created_at < search.created_until)
    )
    return not search.is_empty and indexed and all(term.matches(MAIL) for term in search.terms)


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("", True),
        ("status:dead", True),
        ("STATUS:Dead,running", True),
        ("-status:dead", False),
        ("status:dead -status:dead", False),
        ("-status:finished", False),
        ("type:mail.send", True),
        ("type:mail*", True),
        ("late:>1m", True),
        ("late:>3h", False),
        ("late:<3h", True),
        ("payload.user.id:42", True),
        ("payload.user.id:4*", True),
        ("payload.user.id:43,42", True),
        ("payload.lines.1:second", True),
        ("payload.lines.2:second", False),
        ("payload.user:42", False),
        ("payload.paid:true", True),
        ("-payload.user.id:42", False),
        ("type:*send", True),
        ("type:m*.*d", True),
        ("type:mail", False),
        ("-type:mail*", False),
        ('type:"mail*"', False),
        ("type:report,mail*", True),
        ("queue:slow,fast", True),
        ("-queue:slow", False),
        ("tag:red", True),
        ("tag:red tag:blue", True),
        ("tag:red tag:green", False),
        ("-tag:green", True),
        ("tag:r*,g*", True),
        ("worker:w1", True),
        ("-worker:w*", False),
        ('error:"connection REFUSED"', True),
        ("error:oserror", True),
        ("-error:refused", False),
        ("attempts:>1", True),
        ("attempts:3", True),
        ("attempts:<=2", False),
        ("-attempts:>=3", False),
        ("priority:>=7", True),
        ("created:>1h", True),
        ("created:<1h", False),
        ("created:<3h created:>90m", True),
        ("created:>2026-01-31", True),
        ("created:<2026-03-01T10:00:00Z", False),
        ("finished:<2h", True),
        ("finished:>2h", False),
        ("mail", True),
        ("send", False),
        ("-mail", False),
        (to_text(MAIL.id), True),
        (f"id:{to_text(MAIL.id)[:12]}*", True),
        ("id:1*", False),
    ],
)
def test_a_search_finds_what_it_says(text: str, is_found: bool) -> None:  # noqa: FBT001 - a table
    assert keeps(text) is is_found


@pytest.mark.parametrize(
    ("text", "position", "remedy"),
    [
        ("status:ded", 1, "did you mean 'dead'?"),
        ("type:a  stauts:dead", 9, "did you mean 'status'?"),
        ("type:", 1, "write name:value"),
        ("type:a -", 8, "write name:value"),
        ('type:"abc', 6, "not closed"),
        ("created:2h", 1, "created:<2h"),
        ("created:>soon", 1, "neither a duration"),
        ("attempts:many", 1, "attempts:>1"),
        ("priority:-1", 1, "priority:>=7"),
        ("error:a,b", 1, "in quotes"),
        ("a,b", 1, "type:mail,report"),
        ('type:""', 1, "type:mail*"),
        ("-schedule:nightly", 1, "the id of a schedule"),
        ("schedule:a schedule:b", 12, "given twice"),
        ('x ""', 3, "leave it out"),
        ("tag:x " * 51, 301, "more than 50 terms"),
        ("type:a " + "-tag:" + "*a," * 100, 8, "more than 100 values"),
        ("x" * 2_001, 2_001, "2000 characters"),
    ],
)
def test_an_error_names_the_position_and_the_remedy(text: str, position: int, remedy: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_search(text, NOW)
    assert str(refused.value).startswith(f"q: at character {position}: ")
    assert remedy in str(refused.value)
    assert refused.value.field == "q"


def test_whole_names_states_and_ages_use_indexes() -> None:
    text = "status:dead type:a,b queue:q tag:t worker:w schedule:s fingerprint:f created:<1h"
    assert parse_search(text, NOW) == Search(
        states=(State.DEAD,),
        types=("a", "b"),
        queues=("q",),
        tag="t",
        worker="w",
        schedule="s",
        fingerprint="f",
        created_from=NOW - HOUR,
    )
    assert set(parse_search("-status:finished", NOW).states) == set(State) - FINISHED


def test_a_whole_id_is_found_by_its_key() -> None:
    assert parse_search(to_text(77), NOW).job_id == JobId(77)


def test_quotes_and_backslashes_are_literal() -> None:
    assert parse_search(r'tag:"a \"b\" \\ c, d"', NOW).tag == r'a "b" \ c, d'


def test_every_field_has_an_example_that_is_understood() -> None:
    for example in FIELDS.values():
        parse_search(example, NOW)


@unhurried
@given(st.text(alphabet=st.sampled_from('ab:-"*,<>=\\ 0129.typestauscrdT'), max_size=60) | st.text(max_size=60))
def test_any_text_is_parsed_or_refused_with_its_field(text: str) -> None:
    try:
        search = parse_search(text, NOW)
    except InvalidRequest as error:
        assert error.field == "q"  # noqa: PT017 - either is right
        return
    for term in search.terms:
        term.matches(MAIL)


def test_ages_reach_back_to_the_beginning_of_time() -> None:
    early = datetime(1, 1, 2, tzinfo=UTC)
    assert parse_search("created:>36500d", early).created_until == datetime.min.replace(tzinfo=UTC)


def test_time_grows_linearly_with_the_length() -> None:
    def spent(text: str) -> float:
        begun = time.perf_counter()
        parse_search(text, NOW)
        return time.perf_counter() - begun

    patterns = "type:" + "*a" * 900
    assert min(spent(patterns) for _ in range(5)) < 0.05

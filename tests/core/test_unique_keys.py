from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from builders import BASE, HOUR, MICROSECOND, MINUTE, SECOND, new_job
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.lifecycle import FINISHED, State
from rota.core.submission import check
from rota.core.unique_keys import (
    DEFAULT_STATES,
    KeyDecision,
    KeyHolder,
    UniqueKey,
    UniqueKind,
    arguments_of,
    control_of,
    debounced_time,
    decide,
    overridden,
)

CALL = '{"args":[1],"kwargs":{"b":2}}'


def holder(state: State = State.PENDING, fence: int = 0) -> KeyHolder:
    return KeyHolder(JobId(1), state, fence, BASE)


@pytest.mark.parametrize("state", State)
def test_a_unique_job_counts_in_its_states_and_within_its_period(state: State) -> None:
    key = UniqueKey(UniqueKind.UNIQUE, "k", HOUR)
    expected = KeyDecision.HELD if state in DEFAULT_STATES else KeyDecision.FREE
    assert decide(key, holder(state), BASE + HOUR - MICROSECOND) is expected
    assert decide(key, holder(state), BASE + HOUR) is KeyDecision.FREE
    assert decide(UniqueKey(UniqueKind.UNIQUE, "k"), holder(state), BASE + 1000 * HOUR) is expected


@pytest.mark.parametrize("state", State)
def test_a_throttled_job_counts_in_every_state(state: State) -> None:
    key = UniqueKey(UniqueKind.THROTTLE, "k", HOUR)
    assert decide(key, holder(state), BASE + HOUR - MICROSECOND) is KeyDecision.HELD
    assert decide(key, holder(state), BASE + HOUR) is KeyDecision.FREE


@pytest.mark.parametrize("state", State)
def test_a_debounced_job_is_replaced_only_if_no_worker_ever_took_it(state: State) -> None:
    key = UniqueKey(UniqueKind.DEBOUNCE, "k", HOUR)
    waits = state in {State.SCHEDULED, State.PENDING, State.QUEUED}
    assert decide(key, holder(state), BASE) is (KeyDecision.REPLACE if waits else KeyDecision.FREE)
    assert decide(key, holder(state, fence=1), BASE) is KeyDecision.FREE


def test_a_key_without_a_job_is_free() -> None:
    assert {decide(UniqueKey(kind, "k", HOUR), None, BASE) for kind in UniqueKind} == {KeyDecision.FREE}


def test_dead_and_cancelled_jobs_do_not_count_by_default() -> None:
    assert {State.DEAD, State.CANCELLED} == FINISHED - DEFAULT_STATES


@pytest.mark.parametrize(("max_wait", "expected"), [(None, MINUTE), (HOUR, MINUTE), (SECOND, SECOND)])
def test_a_debounced_job_waits_at_most_for_max_wait(max_wait: timedelta | None, expected: timedelta) -> None:
    key = UniqueKey(UniqueKind.DEBOUNCE, "k", MINUTE, max_wait=max_wait)
    assert debounced_time(key, BASE + MINUTE, holder()) == BASE + expected


def test_names_differ_by_kind_type_queue_and_text() -> None:
    names = [
        UniqueKey(kind, text).name_for(job_type, queue)
        for kind in UniqueKind
        for text in "ab"
        for job_type in "ab"
        for queue in "ab"
    ]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("payload", "names", "arguments"),
    [
        (CALL, ("a", "b"), {"a": 1, "b": 2}),
        (CALL, (), {"*": [1], "b": 2}),
        ('{"a":1,"b":2}', (), {"a": 1, "b": 2}),
        ('{"args":1,"kwargs":2}', (), {"args": 1, "kwargs": 2}),
        ("[1]", ("a",), [1]),
        ("no json", (), {"": "no json"}),
    ],
)
def test_arguments_are_read_by_name(payload: str, names: tuple[str, ...], arguments: object) -> None:
    assert arguments_of(payload, names) == arguments


def text(payload: str, names: tuple[str, ...] = (), **options: Any) -> str:  # noqa: ANN401 - any option
    control = control_of(**options)
    assert control is not None
    return control.key_of(payload, names).text


def test_a_unique_job_is_equal_if_all_its_arguments_are() -> None:
    equal = [(CALL, ("a", "b")), ('{"b":2,"a":1}', ()), ('{"args":[1,2],"kwargs":{}}', ("a", "b"))]
    assert len({text(payload, names, unique_for=HOUR) for payload, names in equal}) == 1
    assert text('{"a":1}', unique_for=HOUR) != text('{"a":2}', unique_for=HOUR)


def test_named_arguments_alone_make_jobs_equal() -> None:
    first, second, third = (f'{{"a":{a},"b":{b}}}' for a, b in ((1, 1), (1, 2), (2, 1)))
    keys = [text(payload, throttle=HOUR, unique_by=["a"]) for payload in (first, second, third)]
    assert keys[0] == keys[1] != keys[2]


def test_throttle_and_debounce_are_for_the_whole_task_by_default() -> None:
    assert text("1", throttle=HOUR) == text("2", throttle=HOUR)
    assert text("1", debounce=HOUR) == text("2", debounce=HOUR)


@pytest.mark.parametrize(("payload", "why"), [("[1]", "no JSON object"), ('{"b":1}', "has no argument 'a'")])
def test_a_payload_without_the_named_argument_is_refused(payload: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=f"unique_by: .*{why}"):
        text(payload, unique_for=HOUR, unique_by=["a"])


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"unique_for": HOUR, "throttle": HOUR}, "throttle"),
        ({"unique_for": HOUR, "debounce": HOUR}, "debounce"),
        ({"unique_states": [State.PENDING], "debounce": HOUR}, "debounce"),
        ({"unique_for": HOUR, "unique_by": ["a"], "unique_key": "k"}, "unique_key"),
        ({"unique_by": ["a"]}, "unique_by"),
        ({"unique_key": "k"}, "unique_key"),
        ({"max_wait": HOUR}, "max_wait"),
        ({"max_wait": HOUR, "throttle": HOUR}, "max_wait"),
        ({"max_wait": SECOND, "debounce": HOUR}, "max_wait"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{field}: ") as caught:
        control_of(**options)
    assert caught.value.field == field


@pytest.mark.parametrize("name", ["unique_for", "debounce", "throttle"])
def test_a_period_of_nothing_is_no_control(name: str) -> None:
    options: dict[str, Any] = {name: timedelta(0)}
    assert control_of(**options) is None


@pytest.mark.parametrize(
    ("options", "others", "both"),
    [
        ({"throttle": 1, "unique_by": "a"}, {"debounce": 2}, {"debounce": 2, "unique_by": "a"}),
        ({"throttle": 1, "unique_by": "a"}, {"unique_key": "k"}, {"throttle": 1, "unique_key": "k"}),
        ({"debounce": 1, "max_wait": 2}, {"throttle": 3}, {"throttle": 3}),
        ({"debounce": 1, "max_wait": 2, "unique_by": "a"}, {"debounce": None}, {}),
        ({"unique_for": 1, "unique_states": 2}, {"unique_for": 3}, {"unique_for": 3, "unique_states": 2}),
        ({"queue": "q", "throttle": 1}, {"throttle": 2}, {"queue": "q", "throttle": 2}),
    ],
)
def test_another_control_replaces_the_former(options: dict[str, Any], others: Any, both: dict[str, Any]) -> None:  # noqa: ANN401 - any options
    assert {name: value for name, value in overridden(options, others).items() if value is not None} == both


def test_a_control_is_read_back_from_its_options() -> None:
    for control in (
        control_of(unique_for=HOUR, unique_by=["b", "a"]),
        control_of(unique_states=[State.PENDING]),
        control_of(debounce=MINUTE, max_wait=HOUR, unique_key="k"),
        control_of(throttle=HOUR),
    ):
        assert control is not None
        assert control_of(**control.options()) == control


def test_arguments_of_an_encrypted_payload_are_not_compared() -> None:
    encrypted = '{"rota.encrypted":["k","payload","x","","data"]}'
    for options in ({"unique_for": HOUR}, {"throttle": HOUR, "unique_by": ["a"]}):
        with pytest.raises(InvalidRequest, match="unique_by: the payload is encrypted"):
            text(encrypted, **options)
    assert text(encrypted, throttle=HOUR) == text("1", throttle=HOUR)
    debounced = new_job(payload=encrypted, run_at=BASE, unique=UniqueKey(UniqueKind.DEBOUNCE, "k", HOUR))
    with pytest.raises(InvalidRequest, match="debounce: an encrypted payload belongs to one job"):
        check(debounced)

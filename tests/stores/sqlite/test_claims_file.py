"""The claims file: each claim has a slot, and torn, outdated or foreign entries are ignored."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rota.stores.sqlite.handoff import claims_file
from rota.stores.sqlite.handoff.claims_file import (
    SLOT_BYTES,
    SLOTS,
    ClaimAnswer,
    ClaimsFile,
    WaitingClaim,
    claims_file_of,
    monotonic_micros,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


def put(found: ClaimsFile, name: str = "claim", since: int = 0, until: int = 60_000_000, **fields: Any) -> int | None:  # noqa: ANN401
    """Add a claim that waits since and until so many microseconds from now, and return its slot."""
    now = monotonic_micros()
    made = WaitingClaim(name, "w", "b", 1, "\0nobody", found.database, ("default",), ("mail",))
    entry = found.add(msgspec.structs.replace(made, **fields), now + since, now + until)
    return None if entry is None else entry.slot


@pytest.fixture
def empty_file(path: Path) -> Iterator[ClaimsFile]:
    path.touch(0o640)
    found = ClaimsFile.open(str(path))
    assert found is not None
    yield found
    found.close()


def names(found: ClaimsFile) -> list[str]:
    return [entry.claim.claim_id for entry in found.waiting("default", "mail")]


def test_there_is_a_limited_number_of_slots(empty_file: ClaimsFile) -> None:
    slots = [put(empty_file, str(number)) for number in range(SLOTS)]
    assert slots == list(range(SLOTS))
    assert put(empty_file, "one too many") is None
    assert names(empty_file) == [str(number) for number in range(SLOTS)]
    empty_file.remove_claim("5")
    assert put(empty_file, "another") == 5


def test_the_longest_waiting_claim_is_first_in_any_slot(empty_file: ClaimsFile) -> None:
    for age in (200, 300, 100):
        put(empty_file, f"{age}", since=-age * 1000)
    assert names(empty_file) == ["300", "200", "100"]


def test_what_is_too_long_for_a_place_is_not_add(empty_file: ClaimsFile) -> None:
    assert put(empty_file, "n" * SLOT_BYTES) is None
    assert put(empty_file, "n" * (SLOT_BYTES - 200)) == 0
    assert names(empty_file) == ["n" * (SLOT_BYTES - 200)]


@pytest.mark.parametrize("off", [{"until": 0}, {"since": 3_600_000_000}], ids=["past", "restarted"])
def test_a_claim_past_its_time_or_from_before_a_restart_of_the_host_frees_its_slot(
    empty_file: ClaimsFile, off: dict[str, int]
) -> None:
    put(empty_file, "old", **off)
    assert not names(empty_file)
    assert put(empty_file, "new") == 0


def test_a_claim_for_another_database_is_ignored(empty_file: ClaimsFile) -> None:
    """A claims file that was copied along with a database, or left behind by a replaced one."""
    put(empty_file, file=(1, 2, 3))
    assert not names(empty_file)


def test_a_slot_that_was_freed_and_reused_meanwhile_is_left_alone(empty_file: ClaimsFile) -> None:
    put(empty_file, "first")
    (first,) = empty_file.waiting("default", "mail")
    empty_file.remove(first.slot, first.checksum)
    put(empty_file, "second")
    empty_file.remove(first.slot, first.checksum)
    assert not empty_file.write_answer(first, ClaimAnswer("first", 0, None))
    assert names(empty_file) == ["second"]


def test_an_answer_is_read_only_by_its_claim_and_once(empty_file: ClaimsFile) -> None:
    put(empty_file)
    (entry,) = empty_file.waiting("default", "mail")
    assert empty_file.read_answer(entry) is None
    assert empty_file.write_answer(entry, ClaimAnswer("claim", 7, None))
    assert not names(empty_file)
    another = entry._replace(claim=msgspec.structs.replace(entry.claim, claim_id="another"), checksum=1)
    assert empty_file.read_answer(another) is None
    empty_file.clear(another)
    assert empty_file.read_answer(entry) == ClaimAnswer("claim", 7, None)
    empty_file.clear(entry)
    assert empty_file.read_answer(entry) is None
    assert not empty_file.checksums()


@pytest.mark.parametrize("at", [4096, 4116, 4130])
def test_a_torn_entry_is_no_claim(empty_file: ClaimsFile, at: int) -> None:
    put(empty_file)
    os.pwrite(empty_file._descriptor, b"\xff\xff", at)
    assert not names(empty_file)


def test_a_truncated_entry_is_no_claim(empty_file: ClaimsFile) -> None:
    put(empty_file)
    for length in (4097, 300, 100, 0):
        os.ftruncate(empty_file._descriptor, length)
        assert not names(empty_file)
    assert put(empty_file) == 0
    assert names(empty_file) == ["claim"]


@pytest.mark.parametrize(("mode", "expected"), [(0o644, 0o600), (0o664, 0o660), (0o666, 0o666), (0o600, 0o600)])
def test_only_users_who_may_write_to_the_database_may_read_its_claims_file(
    path: Path, mode: int, expected: int
) -> None:
    path.touch()
    path.chmod(mode)
    for _ in range(2):
        found = ClaimsFile.open(str(path))
        assert found is not None
        found.close()
        assert stat.S_IMODE(Path(claims_file_of(str(path))).stat().st_mode) == expected


def stat_of(mode: int, user: int, group: int) -> os.stat_result:
    return os.stat_result((stat.S_IFREG | mode, 1, 1, 1, user, group, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("of_claims_file", "of_file", "expected"),
    [
        (stat_of(0o600, 7, 7), stat_of(0o600, 7, 7), True),
        (stat_of(0o660, 7, 8), stat_of(0o660, 7, 8), True),
        (stat_of(0o600, 7, 9), stat_of(0o660, 7, 8), True),
        (stat_of(0o660, 0, 8), stat_of(0o660, 7, 8), True),
        (stat_of(0o660, 7, 9), stat_of(0o660, 7, 8), False),
        (stat_of(0o600, 9, 7), stat_of(0o666, 7, 7), False),
        (stat_of(0o660, 7, 7), stat_of(0o640, 7, 7), False),
        (stat_of(0o604, 7, 7), stat_of(0o604, 7, 7), False),
    ],
)
def test_a_file_of_another_user_or_with_wider_permissions_is_not_used(
    of_claims_file: os.stat_result, of_file: os.stat_result, *, expected: bool
) -> None:
    assert claims_file._is_for_writers_only(of_claims_file, of_file) is expected

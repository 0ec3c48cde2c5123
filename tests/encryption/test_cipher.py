"""Envelopes and keys: what can be read, by whom, and what is refused."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.envelope import envelope_of, is_encrypted
from rota.core.errors import DecryptionFailed, InvalidRequest, KeyMissing
from rota.core.ids import JobId, to_text
from rota.core.settlement import JobError
from rota.encryption import Cipher, Key
from rota.encryption.jobs import encrypted_form
from rota.encryption.keys import FileKeys, ListedKeys, provider_of
from rota.worker.references import resolve

OLD, NEW = Key("k1", bytes(range(32))), Key("k2", bytes(range(1, 33)))
HERE = to_text(7)


def line(key: Key) -> str:
    return f"{key.id}={base64.b64encode(key.secret).decode()}"


def cipher_of(*keys: Key) -> Cipher:
    return Cipher(ListedKeys(keys))


@given(st.text(alphabet=st.characters(codec=None)))
def test_a_text_comes_back_as_it_was(text: str) -> None:
    cipher = cipher_of(OLD)
    sealed = cipher.encrypt(text, "payload", HERE)
    assert is_encrypted(sealed)
    assert sealed.isascii()
    assert cipher.decrypt(sealed, "payload", (HERE,)) == text


def test_an_envelope_is_json_that_another_writer_may_format_anew() -> None:
    sealed = cipher_of(OLD).encrypt("1", "payload", HERE)
    again = json.dumps(json.loads(sealed), indent=1)
    assert is_encrypted(again)
    assert cipher_of(OLD).decrypt(again, "payload", (HERE,)) == "1"


def test_equal_texts_have_unequal_envelopes() -> None:
    cipher = cipher_of(OLD)
    assert cipher.encrypt("1", "payload", HERE) != cipher.encrypt("1", "payload", HERE)


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    before = cipher_of(OLD).encrypt("1", "payload", HERE)
    rotated = cipher_of(NEW, OLD)
    assert rotated.decrypt(before, "payload", (HERE,)) == "1"
    assert str(envelope_of(rotated.encrypt("1", "payload", HERE))) == "encrypted (key k2)"


def test_a_missing_key_is_named() -> None:
    sealed = cipher_of(NEW).encrypt("1", "payload", HERE)
    with pytest.raises(KeyMissing, match="'k2', which is not configured here"):
        cipher_of(OLD).decrypt(sealed, "payload", (HERE,))


def test_another_key_of_the_same_name_is_found_out() -> None:
    sealed = cipher_of(OLD).encrypt("1", "payload", HERE)
    with pytest.raises(DecryptionFailed, match="same name"):
        cipher_of(Key("k1", NEW.secret)).decrypt(sealed, "payload", (HERE,))


@pytest.mark.parametrize("place", range(5))
def test_no_part_of_an_envelope_can_be_changed(place: int) -> None:
    sealed = json.loads(cipher_of(OLD, NEW).encrypt("1", "payload", HERE, digest="d"))
    parts = sealed["rota.encrypted"]
    others = ["k2", "result", to_text(8), "e", base64.b64encode(base64.b64decode(parts[4])[:-1] + b"\0").decode()]
    parts[place] = others[place]
    bound_to = (HERE, to_text(8))
    with pytest.raises(DecryptionFailed):
        cipher_of(OLD, NEW).decrypt(json.dumps(sealed), parts[1], bound_to)


def test_an_envelope_of_another_job_or_field_is_refused() -> None:
    sealed = cipher_of(OLD).encrypt("1", "payload", HERE)
    with pytest.raises(DecryptionFailed, match="moved"):
        cipher_of(OLD).decrypt(sealed, "payload", (to_text(8),))
    with pytest.raises(DecryptionFailed, match="moved"):
        cipher_of(OLD).decrypt(sealed, "result", (HERE,))


@pytest.mark.parametrize(
    "text", ['{"rota.encrypted"', '{"rota.encrypted":1}', '{"rota.encrypted":["k1","a"]}', '{"rota.encrypted":[1]}',
             '{"rota.encrypted":["k1","payload","x","","!"]}', '{"rota.encrypted":["k1","payload","x","","AAAA"]}']
)  # fmt: skip
def test_a_damaged_envelope_is_refused_and_nothing_worse(text: str) -> None:
    with pytest.raises(DecryptionFailed):
        cipher_of(OLD).decrypt(text, "payload", None)


def test_errors_of_one_cause_are_grouped_without_the_key() -> None:
    cipher = cipher_of(OLD)

    def fingerprint(message: str) -> str:
        plain = JobError("ValueError", message)
        digest = cipher.digest(plain.cause.encode()).hex()
        return JobError("ValueError", cipher.encrypt(message, "error", HERE, digest=digest)).fingerprint("mail")

    assert fingerprint("user 7 is away") == fingerprint("user 8 is away") != fingerprint("the user is away")
    assert JobError("E", '{"rota.encrypted":1}').fingerprint("mail")


def test_keys_come_from_the_setting_a_file_or_a_program(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# ours\n{line(NEW)}\n\n{line(OLD)}\n", encoding="utf-8")
    for setting in (f"{line(NEW)}, {line(OLD)}", f"file:{path}", f"python:{__name__}:own_keys"):
        found = provider_of(setting, lambda reference: own_keys if "own_keys" in reference else resolve(reference))
        assert list(found.keys()) == [NEW, OLD]


def own_keys() -> ListedKeys:
    return ListedKeys([NEW, OLD])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("k1", "entry 1 of the setting is not a key"),
        ("k1=geheim", "entry 1 of the setting is not a key"),
        (f"k 1={'A' * 43}=", "entry 1"),
        (",", "has no key"),
        (f"{line(OLD)},{line(OLD)}", "two keys named 'k1'"),
        ("file:/nowhere/at/all", "cannot be read"),
        ("python:nothing.there:keys", "cannot be imported"),
        ("python:os:sep", "gives no key provider"),
        ("python:os", "is not a reference"),
    ],
)
def test_a_setting_without_usable_keys_is_refused_and_shows_none(setting: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as refused:
        provider_of(setting, resolve)
    assert "geheim" not in str(refused.value)


def test_a_key_file_is_read_again_when_it_changes_and_never_left_without_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(line(OLD), encoding="utf-8")
    keys = FileKeys(path)
    both = f"{line(NEW)}\n{line(OLD)}"
    for number, (text, expected) in enumerate(((both, [NEW, OLD]), ("half", [NEW, OLD]), (line(NEW), [NEW]))):
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(number, number))
        assert list(keys.keys()) == expected
    path.unlink()
    assert list(keys.keys()) == [NEW]


def test_a_submission_of_the_command_line_is_encrypted_with_its_follow_ups() -> None:
    cipher = cipher_of(OLD)
    form = {"type": "a", "payload": {"secret": 1}, "on_success": {"type": "b", "payload": 2}, "idempotency_key": "x"}
    sealed = encrypted_form(cipher, form, HERE)
    again = encrypted_form(cipher, form, to_text(8))
    assert sealed["idempotency_fingerprint"] == again["idempotency_fingerprint"]
    assert cipher.decrypt(json.dumps(sealed["payload"]), "payload", (HERE,)) == '{"secret": 1}'
    assert cipher.decrypt(json.dumps(sealed["on_success"]["payload"]), "payload", ("type b",)) == "2"
    assert sealed["id"] == HERE == to_text(JobId(7))

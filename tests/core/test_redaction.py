"""Passwords are removed from all output."""

from __future__ import annotations

import pytest

from rota.core.redaction import redacted

SHOWN = [
    ("postgresql://rota:hunter2@db:5432/x", "postgresql://rota:***@db:5432/x"),
    ("postgresql://rota:p@ss/w:rd@db/x", "postgresql://rota:***@db/x"),
    ("redis://:hunter2@cache/0", "redis://:***@cache/0"),
    ("root:hunter2@tcp(127.0.0.1:3310)/scheduler", "root:***@tcp(127.0.0.1:3310)/scheduler"),
    ("http://user:hunter2@api:8080,http://api:8081", "http://user:***@api:8080,http://api:8081"),
    (
        "postgresql://db/x?user=u&password=hunter2&sslmode=require",
        "postgresql://db/x?user=u&password=***&sslmode=require",
    ),
    ("redis://h?ssl_keyfile_password=hunter2", "redis://h?ssl_keyfile_password=***"),
    ("cannot reach mysql://u:hunter2@h/d: refused", "cannot reach mysql://u:***@h/d: refused"),
    ("etcd://h:2379?token=hunter2;x=1", "etcd://h:2379?token=***;x=1"),
    ("host=db password=hunter2 dbname=x", "host=db password=*** dbname=x"),
    ("password='hunter2 and more' dbname=x", "password=*** dbname=x"),
    ("'host=db password=hunter2'", "'host=db password=***'"),
    ('sent {"db_password": "hunter2", "user": "u"}', 'sent {"db_password": "***", "user": "u"}'),
    ("{'api_key': 'hunter2'}", "{'api_key': \"***\"}"),
    ('{"token": "a\\"hunter2"}', '{"token": "***"}'),
    ("Authorization: Bearer hunter2", "Authorization: ***"),
    ("headers: authorization: hunter2, x: y", "headers: authorization: ***, x: y"),
]
PLAIN = ["rota.db", "sqlite:///rota.db", "http://127.0.0.1:8080", "a@b.example", "12:30 is a time @ noon", "x=1", ""]


@pytest.mark.parametrize(("text", "shown"), SHOWN)
def test_a_password_is_hidden(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.parametrize("text", PLAIN)
def test_a_text_without_a_password_stays_as_it_is(text: str) -> None:
    assert redacted(text) == text

"""Passwords that leave this machine without TLS are warned of, and no others."""

from __future__ import annotations

import logging

import pytest

from rota.runtime.plain_text import remedy_for, warn_of_plain_text

WARNED = [
    "postgresql://rota:secret@db/rota",
    "postgres://rota:secret@10.0.0.5:5432/rota?sslmode=prefer",
    "postgresql://rota:secret@127.0.0.1,db/rota",
    "mysql://rota:secret@db/rota",
    "mariadb://rota:secret@db/rota?tls=false",
    "rota:secret@tcp(db:3306)/rota?parseTime=true",
    "redis://:secret@valkey:6379/0",
    "redis+sentinel://:secret@a,b/mymaster",
]
FINE = [
    "rota.db",
    "postgresql://rota@db/rota",
    "postgresql://rota:secret@127.0.0.1/rota",
    "postgresql://rota:secret@[::1]:5432/rota",
    "postgresql://rota:secret@localhost/rota",
    "postgresql://rota:secret@/rota?host=/run/postgresql",
    "postgresql://rota:secret@db/rota?sslmode=verify-full",
    "mysql://rota:secret@db/rota?tls=true",
    "mysql://rota:secret@db/rota?ssl_ca=/etc/ca.pem",
    "rota:secret@tcp(127.0.0.1:3306)/rota",
    "rota:secret@unix(/run/mysqld.sock)/rota",
    "redis://valkey:6379/0",
    "rediss://:secret@valkey:6379/0",
    "http://[broken",
]


@pytest.mark.parametrize("url", WARNED)
def test_a_password_to_another_machine_is_warned_of_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    warn_of_plain_text.cache_clear()
    warn_of_plain_text("store", url)
    warn_of_plain_text("store", url)
    assert caplog.text.count("its password goes to another machine without TLS") == 1
    assert "secret" not in caplog.text


@pytest.mark.parametrize("url", FINE)
def test_what_stays_here_or_is_encrypted_is_not(url: str) -> None:
    assert remedy_for(url) == ""

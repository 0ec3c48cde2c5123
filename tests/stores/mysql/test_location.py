"""How a server is named, and what is refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from rota.core.errors import InvalidRequest
from rota.stores.mysql.location import MysqlLocation, location_of

NAMED = {
    "mysql://ada:s3cret@db:3307/rota": MysqlLocation("db", 3307, "ada", "s3cret", "rota"),
    "mariadb://ada@db/rota": MysqlLocation("db", 3306, "ada", "", "rota"),
    "mysql://ada:%40%2F%3A%20@db/r%20ota": MysqlLocation("db", 3306, "ada", "@/: ", "r ota"),
    "mysql://[::1]:3307/rota": MysqlLocation("::1", 3307, "root", "", "rota"),
    "mysql:///rota": MysqlLocation("127.0.0.1", 3306, "root", "", "rota"),
    "mysql://ada@db/rota?tls=true": MysqlLocation("db", 3306, "ada", "", "rota", tls="true"),
    "mysql://ada@db/rota?ssl_ca=/ca.pem": MysqlLocation("db", 3306, "ada", "", "rota", tls="true", ssl_ca="/ca.pem"),
    "root:root@tcp(127.0.0.1:3310)/scheduler?parseTime=true": MysqlLocation(
        "127.0.0.1", 3310, "root", "root", "scheduler"
    ),
    "root:p@ss:w@tcp(db)/scheduler?charset=utf8mb4&loc=Local": MysqlLocation("db", 3306, "root", "p@ss:w", "scheduler"),
    "ada@tcp([::1]:3310)/rota?tls=skip-verify": MysqlLocation("::1", 3310, "ada", "", "rota", tls="skip-verify"),
    "tcp(:3310)/rota": MysqlLocation("127.0.0.1", 3310, "root", "", "rota"),
    "ada:x@unix(/run/mysqld.sock)/rota": MysqlLocation("localhost", 3306, "ada", "x", "rota", "/run/mysqld.sock"),
}


@pytest.mark.parametrize("text", NAMED)
def test_a_server_is_named_by_a_url_or_a_dsn(text: str) -> None:
    assert location_of(text) == NAMED[text]


REFUSED = {
    "mysql://ada:s3cret@db": "no database",
    "mysql://ada:s3cret@db/": "no database",
    "mysql://ada:s3cret@db:x/rota": "is not a valid URL; write mysql://user:password@",
    "mysql://ada:s3cret/5@db/rota": "is not a valid URL; write mysql://user:password@",
    "mysql://ada:s3cret@db/rota?tls=maybe": "tls='maybe'",
    "mysql://ada:s3cret@db/rota?tsl=true": "'tsl' is not an option",
    "ada:s3cret@tcp(db:x)/rota": "'x' is not a port",
    "ada:s3cret@tcp(db:3306)/": "no database",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_understood_is_refused_without_telling_the_password(text: str) -> None:
    with pytest.raises(InvalidRequest, match=REFUSED[text]) as refusal:
        location_of(text)
    assert refusal.value.field == "store"
    assert "s3cret" not in str(refusal.value)


def test_a_location_is_called_by_a_name_without_its_password() -> None:
    assert location_of("mysql://ada:s3cret@db:3307/rota").name == "mysql://ada@db:3307/rota"


def test_tls_is_verified_unless_the_url_says_otherwise() -> None:
    assert location_of("mysql://db/rota").tls_context() is None
    verified = location_of("mysql://db/rota?tls=true").tls_context()
    assert verified is not None
    assert (verified.verify_mode, verified.check_hostname) == (ssl.CERT_REQUIRED, True)
    trusting = location_of("mysql://db/rota?tls=skip-verify").tls_context()
    assert trusting is not None
    assert (trusting.verify_mode, trusting.check_hostname) == (ssl.CERT_NONE, False)


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "ca.pem"
    with pytest.raises(InvalidRequest, match=r"ssl_ca.*is not a file"):
        location_of(f"mysql://db/rota?ssl_ca={missing}").tls_context()

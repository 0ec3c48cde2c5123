"""How the address of an etcd is read."""

from __future__ import annotations

import pytest

from rota.coordination.etcd import location_of
from rota.core.errors import InvalidRequest

READ = [
    ("localhost:2379", ("http://localhost:2379",)),
    ("a:1, b:2,c", ("http://a:1", "http://b:2", "http://c:2379")),
    ("http://a:1,http://b:2", ("http://a:1", "http://b:2")),
    ("https://a:1", ("https://a:1",)),
    ("etcd://a:1,b", ("http://a:1", "http://b:2379")),
    ("etcds://a/prefix", ("https://a:2379",)),
    ("etcd://[::1]:9,127.0.0.1", ("http://[::1]:9", "http://127.0.0.1:2379")),
]


@pytest.mark.parametrize(("url", "endpoints"), READ)
def test_every_form_of_an_address_names_its_nodes(url: str, endpoints: tuple[str, ...]) -> None:
    assert location_of(url).endpoints == endpoints


def test_a_url_has_the_user_the_prefix_of_keys_and_the_certificate_authority() -> None:
    found = location_of("etcds://us%40er:p%3Aw%2F@a,b/deep/prefix/?ca=/ca.pem&cert=/c.pem&key=/k.pem")
    assert (found.user, found.password, found.prefix) == ("us@er", "p:w/", "deep/prefix")
    assert (found.ca, found.cert, found.key, found.verify) == ("/ca.pem", "/c.pem", "/k.pem", True)
    assert "p:w" not in repr(found)


def test_without_a_prefix_our_keys_stand_under_our_name() -> None:
    assert location_of("a:1").prefix == location_of("etcd://a").prefix == "rota"


@pytest.mark.parametrize(
    ("url", "is_exposed"),
    [
        ("localhost:2379,127.0.0.1,[::1]:2379", False),
        ("etcd://db:2379", True),
        ("localhost,10.0.0.1", True),
        ("etcds://db", False),
        ("etcds://db?verify=no", True),
        ("etcds://localhost?verify=no", False),
    ],
)
def test_what_travels_in_the_open_is_known(url: str, is_exposed: bool) -> None:  # noqa: FBT001 - a table
    assert location_of(url).is_exposed is is_exposed


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("etcd://", "no host"),
        (" , ", "no host"),
        ("redis://a:1", "'redis' is not a scheme"),
        ("http://a,https://b", "use TLS and some do not"),
        ("etcd://a:port", "is not a port"),
        ("etcd://a:99999", "is not a port"),
        ("etcd://a?colour=red", "'colour' is not an option"),
        ("user:s3cret@a", "before the first host"),
        ("http://user:s3cret@a:1", "before the first host"),
        ("etcd://user:s3c/ret@a", "%2F"),
    ],
)
def test_what_is_no_address_is_refused_with_a_reason(url: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as refusal:
        location_of(url)
    assert refusal.value.field == "coordinator"
    assert "s3c" not in str(refusal.value)


def test_certificates_that_are_not_there_are_named() -> None:
    with pytest.raises(InvalidRequest, match="certificates cannot be read"):
        location_of("etcds://a?ca=/nowhere/ca.pem").context()

from __future__ import annotations

import logging

import pytest

from rota.brokers.redis_streams.location import RedisLocation, location_of, warn_of_plain_text
from rota.core.errors import InvalidRequest

SECRET = "s@cret"  # noqa: S105 - nobody's
READ = {
    "redis://": RedisLocation("", (("127.0.0.1", 6379),)),
    "127.0.0.1:6380": RedisLocation("", (("127.0.0.1", 6380),)),
    "cache": RedisLocation("", (("cache", 6379),)),
    "redis://:s%40cret@cache:7000/3": RedisLocation("", (("cache", 7000),), password=SECRET, database=3),
    "valkey://ada:s%40cret@cache": RedisLocation("", (("cache", 6379),), user="ada", password=SECRET),
    "rediss://cache?ssl_ca_certs=/ca.pem": RedisLocation(
        "", (("cache", 6379),), is_encrypted=True, authorities="/ca.pem"
    ),
    "redis://[::1]:7000": RedisLocation("", (("::1", 7000),)),
    "redis+sentinel://a,b:26380/mymaster/2": RedisLocation(
        "sentinel", (("a", 26379), ("b", 26380)), master="mymaster", database=2
    ),
    "rediss+cluster://a:7000,b": RedisLocation("cluster", (("a", 7000), ("b", 6379)), is_encrypted=True),
}


@pytest.mark.parametrize("url", READ)
def test_a_url_says_where_the_server_is(url: str) -> None:
    assert location_of(url) == READ[url]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("amqp://host", "not a known kind of broker"),
        ("redis+magic://host", "not a known kind of broker"),
        ("redis+sentinel://a,b", "name of the master"),
        ("redis://a,b", "Sentinel or a cluster"),
        ("redis+cluster://a/1", "no numbered databases"),
        ("redis://a/x", "number of a database"),
        ("redis://a:port", "is not a port"),
        ("redis://:s3cret/@a", "%2F"),
        ("redis://u:p/s3cret@a:1", "%2F"),
        ("redis://a?max=1", "the only option"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_remedy(url: str, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told) as refusal:
        location_of(url)
    assert refusal.value.field == "broker"
    assert "s3cret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "warns"),
    [("redis://cache", True), ("rediss://cache", False), ("redis://localhost", False), ("redis://127.0.0.9", False)],
)
def test_plain_text_over_a_network_is_warned_of(url: str, warns: bool, caplog: pytest.LogCaptureFixture) -> None:  # noqa: FBT001 - a case
    with caplog.at_level(logging.WARNING):
        warn_of_plain_text(location_of(url))
    assert bool(caplog.records) is warns

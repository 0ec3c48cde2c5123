"""The client checks its addresses and token before the first request."""

from __future__ import annotations

import pytest

from rota.client.transport import Transport
from rota.core.errors import InvalidRequest


def test_a_password_in_the_address_and_a_token_are_refused_together() -> None:
    """Both go into one header: the password was sent, the token was not, and every request was refused."""
    with pytest.raises(InvalidRequest, match=r"api_url: .* remove one") as refusal:
        Transport(["http://127.0.0.1:8080", "http://ada:hunter2@127.0.0.1:8081"], token="secret")  # noqa: S106
    assert "hunter2" not in str(refusal.value)


async def test_either_of_them_is_taken() -> None:
    for urls, token in ((["http://ada:hunter2@127.0.0.1:8080"], ""), (["http://127.0.0.1:8080"], "secret")):
        await Transport(urls, token=token).close()

"""Opens the cipher that the settings describe, and puts it into a link."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rota.worker.references import resolve

if TYPE_CHECKING:
    from rota.encryption import Cipher
    from rota.runtime.link import Link


def open_cipher(encryption_keys: str) -> Cipher | None:
    """Open the keys of the setting `encryption_keys`; None if it is empty."""
    if not encryption_keys:
        return None
    # Imported when needed: it is an extra.
    from rota.encryption.cipher import Cipher  # noqa: PLC0415
    from rota.encryption.keys import provider_of  # noqa: PLC0415

    return Cipher(provider_of(encryption_keys, resolve))


def with_encryption(link: Link, encryption_keys: str) -> Link:
    """Make a link whose submissions are encrypted, and whose reads are decrypted, if keys are configured.

    The engine of the link is left as it is: API and scheduler see encrypted text only.
    """
    cipher = open_cipher(encryption_keys)
    if cipher is None:
        return link
    from rota.encryption.jobs import EncryptedControl, encrypting_submit  # noqa: PLC0415 - as above

    direct = link.direct_submit
    if direct is not None:
        direct = replace(
            direct,
            submit=encrypting_submit(direct.submit, cipher, link.fresh_id),
            submit_blocking=encrypting_submit(direct.submit_blocking, cipher, link.fresh_id),
        )
    caller_tx_config = None if link.caller_tx is None else replace(link.caller_tx, encryption_keys=encryption_keys)
    control = EncryptedControl(link.control, cipher, link.fresh_id)
    return replace(link, control=control, direct_submit=direct, caller_tx=caller_tx_config, cipher=cipher)

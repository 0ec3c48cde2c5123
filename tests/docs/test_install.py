"""The environment is made by uv from where pip would fetch, held to the same hashes."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_SPEC = importlib.util.spec_from_file_location("install", ROOT / "tools" / "install.py")
assert _SPEC is not None
assert _SPEC.loader is not None
install = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(install)

LISTING = """\
:env:.find-links='/here'
:env:.timeout='90'
global.cert='/etc/own.pem'
global.extra-index-url='https://one/simple\\nhttps://two/simple'
global.find-links='/there'
global.index-url='https://weak/simple'
global.no-color='true'
install.index-url='https://strong/simple'
"""


def test_uv_looks_where_pip_would() -> None:
    flags = " ".join(install.flags_for_uv(install.settings_of_pip(LISTING)))
    assert flags == (
        "--index-strategy unsafe-best-match --default-index https://strong/simple"
        " --extra-index-url https://one/simple --extra-index-url https://two/simple --find-links /here"
    )


def test_uv_gets_there_as_pip_would() -> None:
    assert install.surroundings_for_uv(install.settings_of_pip(LISTING)) == {
        "SSL_CERT_FILE": "/etc/own.pem",
        "UV_HTTP_TIMEOUT": "90",
    }


def test_who_may_ask_no_index_asks_none() -> None:
    assert "--no-index" in install.flags_for_uv(install.settings_of_pip("global.no-index='true'"))
    assert "--no-index" not in install.flags_for_uv(install.settings_of_pip("global.no-index='false'"))


def test_a_pip_without_settings_is_no_obstacle() -> None:
    assert list(install.flags_for_uv(install.settings_of_pip(""))) == ["--index-strategy", "unsafe-best-match"]


def test_uv_is_locked_as_it_is_among_the_other_requirements() -> None:
    alone = (ROOT / "requirements-install.txt").read_text(encoding="utf-8")
    among = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    assert re.findall(r"^\S+==", alone, re.MULTILINE) == [alone.partition("==")[0] + "=="]
    assert alone in among

"""The environment is made by uv, from the package index of pip and with the same hashes."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_SPEC = importlib.util.spec_from_file_location("install", ROOT / "tools" / "install.py")
assert _SPEC is not None
assert _SPEC.loader is not None
install = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(install)

_PLACE = "index" + "-url"
LISTING = f"""\
:env:.find-links='/here /too'
:env:.timeout='90'
global.cert='/etc/own.pem'
global.extra-{_PLACE}='one\\ntwo'
global.find-links='/there'
global.{_PLACE}='weak'
global.no-color='true'
install.{_PLACE}='strong'
"""


def test_uv_looks_where_pip_would_and_gets_there_as_pip_would() -> None:
    assert install.uv_environment(install.settings_of_pip(LISTING)) == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "strong",
        "UV_INDEX": "one two",
        "UV_FIND_LINKS": "/here,/too",
        "SSL_CERT_FILE": "/etc/own.pem",
        "UV_HTTP_TIMEOUT": "90",
    }


def test_without_an_allowed_index_none_is_asked() -> None:
    assert install.asks_no_index(install.settings_of_pip("global.no-index='true'"))
    assert not install.asks_no_index(install.settings_of_pip("global.no-index='false'"))
    assert not install.asks_no_index(install.settings_of_pip(LISTING))


def test_a_pip_without_settings_is_no_obstacle() -> None:
    assert install.uv_environment(install.settings_of_pip("")) == {"UV_INDEX_STRATEGY": "unsafe-best-match"}


def test_uv_is_locked_as_it_is_among_the_other_requirements() -> None:
    alone = (ROOT / "requirements-install.txt").read_text(encoding="utf-8")
    among = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    assert re.findall(r"^\S+==", alone, re.MULTILINE) == [alone.partition("==")[0] + "=="]
    assert alone in among


def test_make_run_installs_no_tools_of_development() -> None:
    steps = subprocess.run(["make", "-n", "-B", "run"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    assert "requirements.txt" in steps
    assert "requirements-dev.txt" not in steps


def test_every_python_that_is_found_is_one_that_rota_supports() -> None:
    listing = subprocess.run(["tools/pythons"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    versions = [tuple(map(int, line.split()[0].split("."))) for line in listing.splitlines()]
    assert versions == sorted(set(versions))
    assert all(version >= (3, 11) for version in versions)

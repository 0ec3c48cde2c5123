"""Install locked requirements and Rota itself into the environment of the Python that runs this: `make setup`.

By uv, which takes a tenth of pip's time. pip brings it, held to the hash that is locked for it, and tells where to
fetch from: uv is given pip's own settings, so that whoever has set up pip has nothing else to do. Whatever uv cannot do
pip does then, which is slower and needs nobody's help. Both refuse a package whose hash is not the one that is locked.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
_PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check")
_UV: Final = (str(Path(sys.executable).with_name("uv")), "pip", "install", "--python", sys.executable)
#: What pip calls it, and what uv does, in its environment: a place may have a password in it, and arguments are for
#: everyone to see.
_SURROUNDINGS: Final = {
    "index": "UV_DEFAULT_INDEX",
    "extra-index": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
}
#: Where pip looks for a setting, the strongest last.
_SECTIONS: Final = ("global", "install", ":env:")


def settings_of_pip(listing: str) -> dict[str, str]:
    """Read what `pip config list` prints. That a place is a URL, which pip says of some, is left out of its name."""
    told = [line.partition("=") for line in listing.splitlines()]
    values = {name: str(ast.literal_eval(value)) for name, _, value in told if value}
    return {
        name.removeprefix(f"{section}.").removesuffix("-url"): value
        for section in _SECTIONS
        for name, value in values.items()
        if name.startswith(f"{section}.")
    }


def surroundings_for_uv(settings: Mapping[str, str]) -> dict[str, str]:
    """Say where packages come from and how to get there, in the words of uv."""
    told = {variable: " ".join(settings[name].split()) for name, variable in _SURROUNDINGS.items() if name in settings}
    if "UV_FIND_LINKS" in told:
        # The one list that uv parts by commas.
        told["UV_FIND_LINKS"] = told["UV_FIND_LINKS"].replace(" ", ",")
    # As pip does: the best of all places, not the first that has any. The hash decides whether it is the right one.
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **told}


def asks_no_index(settings: Mapping[str, str]) -> bool:
    """Return whether nothing but links may be asked."""
    return settings.get("no-index", "").lower() in {"1", "true", "yes", "on"}


def _run(*command: str, **more: str) -> bool:
    return subprocess.run(command, check=False, cwd=ROOT, env=os.environ | more).returncode == 0  # noqa: S603 - pip, or uv


def _install(*what: str) -> None:
    asking = (*_PIP, "config", "list")
    told = subprocess.run(asking, capture_output=True, check=True, text=True, cwd=ROOT)  # noqa: S603 - pip, as above
    settings = settings_of_pip(told.stdout)
    quickly = (*_UV, "--quiet", "--compile-bytecode", *(("--no-index",) if asks_no_index(settings) else ()), *what)
    if Path(_UV[0]).exists():
        if _run(*quickly, **surroundings_for_uv(settings)):
            return
        sys.stderr.write("tools/install.py: uv could not; pip does it, which takes a minute or two\n")
    if not _run(*_PIP, "install", "--quiet", *what):
        raise SystemExit("tools/install.py: the packages could not be installed; what pip says of it stands above")


def main() -> None:
    """Install uv, then the requirements of the files named, then this project as it lies here.

    With `--without-uv` pip does all of it: for the few requirements of a run, uv itself would be most of the download.
    """
    files = [word for word in sys.argv[1:] if word != "--without-uv"]
    with_uv = len(files) == len(sys.argv[1:])
    if with_uv and not _run(
        *_PIP, "install", "--quiet", "--require-hashes", "--no-deps", "-r", "requirements-install.txt"
    ):
        sys.stderr.write("tools/install.py: pip could not install uv\n")
    _install("--require-hashes", *(word for file in files for word in ("-r", file)))
    _install("--no-deps", "--no-build-isolation", "-e", ".")


if __name__ == "__main__":
    main()

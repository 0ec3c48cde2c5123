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
#: Settings of pip, and the environment variables of uv for them; not arguments, which other users can see, since an
#: address may contain a password.
_UV_VARIABLES: Final = {
    "index": "UV_DEFAULT_INDEX",
    "extra-index": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
}
#: The sections of the configuration of pip, the strongest last.
_SECTIONS: Final = ("global", "install", ":env:")


def settings_of_pip(listing: str) -> dict[str, str]:
    """Read the output of `pip config list`; the suffix `-url` of names is removed."""
    lines = [line.partition("=") for line in listing.splitlines()]
    values = {name: str(ast.literal_eval(value)) for name, _, value in lines if value}
    return {
        name.removeprefix(f"{section}.").removesuffix("-url"): value
        for section in _SECTIONS
        for name, value in values.items()
        if name.startswith(f"{section}.")
    }


def uv_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of pip about package indexes as environment variables of uv."""
    values = {
        variable: " ".join(settings[name].split()) for name, variable in _UV_VARIABLES.items() if name in settings
    }
    if "UV_FIND_LINKS" in values:
        # uv separates this list by commas.
        values["UV_FIND_LINKS"] = values["UV_FIND_LINKS"].replace(" ", ",")
    # As pip does: the best version of all indexes, not the first index that has any. Hashes verify the package.
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **values}


def asks_no_index(settings: Mapping[str, str]) -> bool:
    """Return whether pip may use links only, and no index."""
    return settings.get("no-index", "").lower() in {"1", "true", "yes", "on"}


def _run(*command: str, **more: str) -> bool:
    return subprocess.run(command, check=False, cwd=ROOT, env=os.environ | more).returncode == 0  # noqa: S603 - pip, or uv


def _install(*what: str) -> None:
    asking = (*_PIP, "config", "list")
    output = subprocess.run(asking, capture_output=True, check=True, text=True, cwd=ROOT)  # noqa: S603 - pip, as above
    settings = settings_of_pip(output.stdout)
    quickly = (*_UV, "--quiet", "--compile-bytecode", *(("--no-index",) if asks_no_index(settings) else ()), *what)
    if Path(_UV[0]).exists():
        if _run(*quickly, **uv_environment(settings)):
            return
        sys.stderr.write("tools/install.py: uv could not; pip does it, which takes a minute or two\n")
    if not _run(*_PIP, "install", "--quiet", *what):
        raise SystemExit("tools/install.py: the packages could not be installed; see the messages of pip above")


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

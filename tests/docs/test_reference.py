"""The reference pages say what the code says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
_SPEC = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
assert _SPEC is not None
assert _SPEC.loader is not None
reference = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(reference)


@pytest.mark.parametrize("page", ["access.md", "cli.md", "http.md", "metrics.md", "settings.md"])
def test_a_reference_page_is_as_make_docs_would_write_it(page: str) -> None:
    assert (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8") == reference.made(page)


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_page_of_ours_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    ours = [target for target in targets if not target.startswith(("http://", "https://", "mailto:"))]
    missing = [target for target in ours if not (page.parent / target).exists()]
    assert not missing

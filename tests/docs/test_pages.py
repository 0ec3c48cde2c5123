"""Every page: its links are valid, it has no paths of a developer's machine, and its commands exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

#: Where a page was written is nobody's business, and where packages come from is the reader's choice.
FOREIGN = re.compile(r"(?<![\w.])/(?:work|root|home|Users)/|\.\./shared|pythonhosted\.org|pypi\.org/simple|\[\[TODO")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
#: Names of parts before the code was renamed. Decision records and notes keep the words of their time.
OLD_WORDS = re.compile(
    r"\b(anteroom|bells?|companions?|ears?|escort|guests?|letterbox|lookout|tripwire)\b", re.IGNORECASE
)
TARGET = re.compile(r"^([a-z-]+):.*## ", flags=re.MULTILINE)


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    links = [link for link, _ in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if link.startswith("/") or not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_page_names_no_place_that_its_reader_does_not_have(page: Path) -> None:
    assert FOREIGN.findall(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name not in {"adr", "notes"}], ids=shown)
def test_a_page_uses_the_present_names(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("FILE-bell", "")
    assert OLD_WORDS.findall(text) == []


def test_every_decision_is_in_the_list_and_has_its_four_parts() -> None:
    decisions = sorted((ROOT / "docs" / "adr").glob("0*.md"))
    listed = re.findall(r"\]\((0\d{3}-[\w-]+\.md)\)", (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8"))
    assert [page.name for page in decisions] == listed
    assert [int(page.name[:4]) for page in decisions] == list(range(1, len(decisions) + 1))
    for page in decisions:
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"^## (\w+)$", text, flags=re.MULTILINE) == ["Status", "Context", "Decision", "Consequences"]
        assert "**Easier.**" in text
        assert "**Harder.**" in text


def test_commands_that_contributors_are_told_of_exist() -> None:
    answer = set(re.findall(r"`?make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    there = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    assert answer <= there
    assert {"setup", "fmt", "lint", "types", "arch", "test", "check"} <= answer


def test_the_layers_that_contributors_are_told_of_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    checked = [re.findall(r"\w+", layer) for layer in contracts[0]["layers"]]
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    answer = [re.findall(r"`(\w+)`", row) for row in re.findall(r"^\| (`[`\w, ]+) \|", text, flags=re.MULTILINE)]
    # The rows of commands hold no single word and are left empty by this.
    assert [row for row in answer if row] == checked


def test_words_of_the_glossary_are_explained_once() -> None:
    words = re.findall(
        r"^\*\*(.+?)\*\*:", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert len(words) == len(set(words)) > 30

"""README, the pages of docs/ and what a public project has: links lead somewhere, and what is named exists."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from autoresearch import cli
from autoresearch.lab.yaml_files import parse_any

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
TEXTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")] + PAGES
TARGETS = frozenset(re.findall(r"(?m)^([a-z-]+(?: [a-z-]+)*):", (ROOT / "Makefile").read_text()))
MAKE = frozenset(word for words in TARGETS for word in words.split())


@pytest.fixture(scope="module")
def hooks() -> Any:
    """docs/hooks.py, which mkdocs loads by its path."""
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "docs/hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def site() -> dict[str, Any]:
    return dict(parse_any((ROOT / "mkdocs.yml").read_bytes(), "mkdocs.yml"))


def pages_of(nav: Any) -> list[str]:
    """Every page of a table of contents of mkdocs."""
    if isinstance(nav, str):
        return [nav]
    return [page for item in (nav.values() if isinstance(nav, dict) else nav) for page in pages_of(item)]


def test_links_lead_somewhere() -> None:
    for path in TEXTS:
        text = re.sub(r"(?ms)^```.*?^```", "", path.read_text())
        for target, anchor in re.findall(r"\]\(([^)\s#]*)(?:#([^)]*))?\)", text):
            if "://" in target:
                continue
            found = path.parent / target if target else path
            assert found.exists(), (path, target)
            if anchor:
                heads = re.findall(r"(?m)^#+ (.*)$", found.read_text())
                heads = [re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads]
                assert anchor in heads, (path, anchor)


def test_every_page_is_in_the_table_of_contents(hooks: Any) -> None:
    shown = pages_of(site()["nav"])
    assert len(shown) == len(set(shown))
    assert set(shown) == {page.name for page in PAGES} | hooks.PAGES.keys()


def test_nothing_of_the_site_is_loaded_from_elsewhere() -> None:
    config = site()
    assert config["theme"]["font"] is False and config["strict"] is True and "repo_url" not in config
    assert config["plugins"] == ["search"]  # `offline` names an address


def test_references_are_made_from_the_code(hooks: Any) -> None:
    text = hooks.commands()
    names = [name for name, _ in hooks.shown_commands()]
    assert {"run", "campaign start"} < set(names) and all(f"\n### {name}\n" in f"\n{text}" for name in names)
    assert not cli.CALLED_BY_US & set(names)
    assert "| `--first-step-timeout DURATION` |" in text and "| `--count N` |" in text
    assert "-1.0" not in text  # numbers that only say that an option was not given
    for name, made in hooks.GENERATED.items():
        assert len(made().splitlines()) > 5, name
        assert any(f"<!-- generated: {name} -->" in page.read_text() for page in PAGES), name


def test_links_are_those_of_the_site(hooks: Any) -> None:
    text = "[a](docs/judge.md#keep) ![b](docs/images/x.png) [c](CONTRIBUTING.md) [d](Makefile) [e](https://x.org)"
    moved = "[a](judge.md#keep) ![b](images/x.png) [c](contributing.md) [d](../Makefile) [e](https://x.org)"
    assert hooks.from_the_root(text) == moved
    left = hooks.on_page_markdown("[d](../Makefile) [a](judge.md)", None, None, None)
    assert left == "d [a](judge.md)"


def test_ci_runs_targets_of_make() -> None:
    parts = re.search(r"parts=\(([a-z -]+)\)", (ROOT / ".ci/run").read_text())
    matrix = parse_any((ROOT / ".github/workflows/ci.yml").read_bytes(), "ci.yml")["jobs"]["part"]["strategy"]["matrix"]
    jobs = {*matrix["part"], *(one["part"] for one in matrix["include"])}
    assert parts and jobs - {"check"} == set(parts[1].split()) and jobs <= MAKE  # `check`: on another Python


def test_every_target_of_make_that_is_named_exists() -> None:
    for path in TEXTS:
        named = re.findall(r"(?m)(?:`|^)make ([a-z][a-z-]+)", path.read_text())
        assert set(named) <= MAKE, path

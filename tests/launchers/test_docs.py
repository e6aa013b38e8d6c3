"""docs/launchers.md has every option of every place, in the words of its launcher."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from autoresearch.core.run.targets import Kind
from autoresearch.launchers.registry import COMMON, options_of

PAGE = Path(__file__).parents[2] / "docs/launchers.md"
TABLES = {"common": COMMON} | {
    kind.value: {name: about for name, about in options_of(kind).items() if name not in COMMON}
    for kind in Kind
    if kind is not Kind.LOCAL
}


def table(options: Mapping[str, str]) -> str:
    rows = "".join(f"| `{name}` | {about} |\n" for name, about in options.items())
    return f"| option | what it is |\n|---|---|\n{rows}"


@pytest.mark.parametrize("name", TABLES)
def test_its_table_is_that_of_the_code(name: str) -> None:
    mark = f"<!-- options: {name} -->\n"
    _, found, after = PAGE.read_text().partition(mark)
    expected = table(TABLES[name])
    assert found and after.startswith(f"\n{expected}\n#"), "python -m tests.launchers.test_docs writes it"


def test_it_has_a_section_for_each_kind() -> None:
    text = PAGE.read_text()
    assert all(f"\n## {kind.value}\n" in text for kind in Kind)
    assert "No kubelet ever ran a pod in our tests" in text


def write() -> None:
    """Put the tables of the code into the page: python -m tests.launchers.test_docs"""
    text = PAGE.read_text()
    for name, options in TABLES.items():
        before, mark, after = text.partition(f"<!-- options: {name} -->\n")
        text = f"{before}{mark}\n{table(options)}{after[after.index(chr(10) + '## ') :]}"
    PAGE.write_text(text)


if __name__ == "__main__":
    write()

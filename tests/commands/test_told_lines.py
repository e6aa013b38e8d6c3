"""Every command and option that our texts name is one: docs, skill, templates, blueprints, what commands say."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from autoresearch import cli
from tests.agents.taught import command_lines

REPO = Path(__file__).parents[2]
DOCUMENTS = [
    *sorted((REPO / "docs").glob("*.md")),
    *sorted((REPO / "skills").rglob("*.md")),
    *sorted((REPO / "blueprints").rglob("*.md")),
    *sorted((REPO / "blueprints").rglob("*.yaml")),
    REPO / "README.md",
]
SOURCES = sorted((REPO / "autoresearch").rglob("*.py"))
OLD = {"cli.py"}  # it knows former names


def literals(path: Path) -> tuple[str, ...]:
    """The texts in a source file, without its docstrings; what an f-string fills in is 7."""
    tree = ast.parse(path.read_text())
    found, docstrings = list[str](), set[ast.expr]()
    for node in ast.walk(tree):  # from the top down
        if node in docstrings:
            continue
        if isinstance(node, ast.Expr):
            docstrings.add(node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "7" for part in node.values)
            found.append("".join(parts))  # type: ignore[arg-type]
    return tuple(found)


def shown_lines(texts: Iterable[str]) -> Iterator[str]:
    """The lines in texts that somebody is told to type: whole texts, and what stands between backticks."""
    for text in texts:
        spans = re.findall(r"`(autoresearch [^`\n]+)`", text)
        spans += [text] if re.match(r"autoresearch [a-z]", text) and "\n" not in text else []
        yield from (span for span in spans if not re.search(r"\.\.\.|\||\[| $", span))


def names_a_command(words: list[str]) -> bool:
    """Whether words are a command's name alone, as in a sentence about it."""
    return len(words) == 2 or " ".join(words[1:]) in cli.COMMANDS


def test_every_line_of_a_document_is_understood(parse: Callable[[str], None]) -> None:
    lines = [line for path in DOCUMENTS if path.suffix == ".md" for line in command_lines(path.read_text())]
    parts = [part for line in lines if "..." not in line for part in re.split(r" (?:&&|\|) ", line)]
    for part in dict.fromkeys(parts):
        if part.startswith("autoresearch ") and not names_a_command(part.split()):
            parse(part)
    assert len(parts) > 200
    with pytest.raises(Exception, match="--no-such"):
        parse("autoresearch wait RUN --no-such 3")
    with pytest.raises(AssertionError):
        parse("autoresearch frobnicate")


def test_every_line_that_a_command_tells_is_understood_and_no_message_names_what_is_gone(
    parse: Callable[[str], None],
) -> None:
    """One test, so that every source is parsed once, in one worker."""
    wrong, count = [], 0
    for path in SOURCES:
        if path.name in OLD:
            continue
        texts = literals(path)
        for line in shown_lines(texts):
            words = line.split()
            if "7" in words[1 : 3 if cli.verbs_of(words[1]) else 2] or "--help" in words:
                continue  # the command itself is filled in
            count += 1
            if names_a_command(words):
                continue
            try:
                parse(line)
            except Exception as error:  # noqa: BLE001 - whatever the parser has against it
                wrong.append(f"{path.relative_to(REPO)}: {line}: {error}")
    assert count > 60 and not wrong, "\n".join(wrong)

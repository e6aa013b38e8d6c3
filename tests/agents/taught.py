"""The command lines that the skill teaches, read from its markdown; and which lines agents' rules refuse."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

SKILL = Path(__file__).parents[2] / "skills/autoresearch"


def texts() -> dict[str, str]:
    """The router and every page, by name."""
    pages = {path.stem: path.read_text() for path in sorted((SKILL / "references").glob("*.md"))}
    return {"SKILL.md": (SKILL / "SKILL.md").read_text(), **pages}


def spans(text: str) -> list[str]:
    """What stands between backticks, outside fences."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"(?ms)^ *```.*?^ *```", "", text))


def fenced(text: str) -> list[str]:
    """Lines of fences that hold shell: of no language, or of one that is a shell's."""
    blocks = re.findall(r"(?ms)^ *```(?:bash|sh|shell|console)?\n(.*?)^ *```", text)
    return [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def command_lines(text: str) -> list[str]:
    """Every command line of ours in a markdown text."""
    return [line for line in (*fenced(text), *spans(text)) if re.match(r"autoresearch\s", line)]


def refusals(line: str) -> list[str]:
    """Why an agent's permission rule `Bash(autoresearch *)` refuses a line, or its harness spoils it.

    Seen with Claude Code 2.1.197 and 2.1.329 in headless mode: plain command lines pass, so do several of ours
    joined by `&&`, `cd DIR &&` before one, `timeout N` before one, and a pipe into head, tail, jq or grep.
    """
    found = []
    bare = re.sub(r"'[^']*'", "''", line)
    if re.search(r"\$\(|`|<\(|>\(", bare):
        found.append("substitution")
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    if {">", ">>", ">&", "&>", "<", "<<", "<<<", "|&"} & set(words):
        found.append("redirect or heredoc")
    if {"&", ";", "||", "(", ")"} & set(words):
        found.append("operator")
    parts: list[list[str]] = [[]]
    for word in words:
        if word in ("&&", "|"):
            parts.append([word])
        else:
            parts[-1].append(word)
    for part in parts:
        joint, argv = (part[0], part[1:]) if part[:1] in (["&&"], ["|"]) else ("", part)
        argv = argv[2:] if argv[:1] == ["timeout"] else argv
        name = argv[0] if argv else ""
        readers = ("head", "tail", "jq", "grep") if joint == "|" else ("cd",)
        if name != "autoresearch" and name not in readers:
            found.append(f"runs {name or 'nothing'}")
    return found


REFUSED = (
    "autoresearch status > out.txt",
    "FOO=1 autoresearch status",
    "autoresearch status; echo rc=$?",
    "autoresearch run $(pwd)/bp.md",
    'autoresearch run "$(pwd)/bp.md"',
    "autoresearch run bp.md &",
    "nohup autoresearch run bp.md",
    "uv run autoresearch status",
    "python -m autoresearch status",
    "sleep 30 && autoresearch status",
    "autoresearch status | tee out.txt",
    "autoresearch campaign add --from - <<EOF\n{}\nEOF",
    "tmux kill-server",
)
"""Lines that the skill may not teach, each for another reason."""

LET_THROUGH = frozenset(
    {'autoresearch run "$(pwd)/bp.md"', "nohup autoresearch run bp.md", "sleep 30 && autoresearch status"}
)
"""Those that Claude Code 2.1.197 lets pass all the same: some version or harness does not, and none is needed."""

ACCEPTED = (
    "autoresearch status --json",
    "autoresearch status | head -5",
    "cd repo && autoresearch status",
    "autoresearch blueprint check a.md && autoresearch run a.md --detach",
    "timeout 60 autoresearch wait x",
    'autoresearch run "$HOME/bp.md"',
    "autoresearch campaign FILE --set 'target=pass@1 >= 0.8'",
    "autoresearch logs RUN --grep 'Error|Traceback'",
)
"""Near misses of those."""


def forms(lines: Iterable[str]) -> list[str]:
    """One line of each form: the same command with the same options, whatever their values."""
    found: dict[tuple[str, ...], str] = {}
    for line in lines:
        words = shlex.split(line)
        shape = [word.partition("=")[0] for word in words if word[:1] == "-" or word in ("&&", "|")]
        odd = [mark for mark in "'|*>{" if mark in line]  # what an agent's parser may stumble over
        grouped = words[1] in ("blueprint", "campaign", "ledger", "scaffold", "skill", "swarm") and words[2:3] != [
            "FILE"
        ]
        found.setdefault((*words[1 : 3 if grouped else 2], *sorted(shape), *odd), line)
    return list(found.values())

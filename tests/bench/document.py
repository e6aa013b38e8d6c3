"""docs/benchmarks.md, written whole: a section for each benchmark, of which those that were measured are made anew."""

from __future__ import annotations

import inspect
import platform
import re
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from tests.bench.result import Result

DOCUMENT = Path(__file__).parents[2] / "docs" / "benchmarks.md"
SECTION = re.compile(r"^## (?P<name>\w+)\n(?P<body>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
HEAD = """# Benchmarks

Ratios are ours / theirs, measured in turn in one run on two shared cores: the median, the lowest and the highest. Trust
them, not times. "The published way" is the script that polls every 2 s, with the plain tmux and GitPython calls of the
published skill (`tests/bench/published.py`). Here are the rows that have a goal. `make bench` measures without writing,
and prints all of them; `python -m tests.bench NAME --write` writes a section anew.

"""
TABLE = (
    "| what | compared with | ratio, or ours (low to high) | goal | met |\n"
    "|---|---|---:|---|---|\n"
)


def section(module: ModuleType, results: Sequence[Result], took: float, load: float) -> str:
    """What a benchmark measures, when it was measured, and its rows with a goal."""
    said = (inspect.getdoc(module) or "").partition("\n\n")[0]
    words = ["git", "log", "-1", "--format=%h", "--", "autoresearch"]  # the last one that changed what is measured
    commit = subprocess.run(words, cwd=DOCUMENT.parents[1], capture_output=True, text=True).stdout.strip()
    when = f"{time.strftime('%Y-%m-%d')}, commit {commit}, Python {platform.python_version()}"
    where = f"{when}, load {load:.1f}; {took:.0f} s."
    rows = (result.row() for result in results if result.goal is not None)
    return "\n\n".join([said, where, TABLE]) + "".join(rows) + "\n"


def write(names: Collection[str], measured: Mapping[str, str], path: Path = DOCUMENT) -> None:
    """Put new sections in the place of the old ones; what is no benchmark any more goes."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    sections = {found["name"]: found["body"].strip("\n") + "\n" for found in SECTION.finditer(before)} | dict(measured)
    kept = {name: sections[name] for name in names if name in sections}
    text = "".join(f"## {name}\n\n{body.strip()}\n\n" for name, body in kept.items())
    path.write_text(HEAD + text.rstrip() + "\n", encoding="utf-8")

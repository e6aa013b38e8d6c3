"""docs/benchmarks.md, written whole: a section for each benchmark, of which those that were measured are made anew."""

from __future__ import annotations

import inspect
import os
import platform
import re
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from tests.bench.result import MORE, Result

DOCUMENT = Path(__file__).parents[2] / "docs" / "benchmarks.md"
SECTION = re.compile(r"^## (?P<name>\w+)\n(?P<body>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
HEAD = f"""# Benchmarks

Written by `python -m tests.bench --write`; with names behind it, only their sections are. `make bench` measures
without writing, says which goals are met and missed, and fails where a value is worse than *reached*, what was
published last, by more than {MORE:.0%}. `make bench-counts` is the part that needs no quiet machine.

Both sides of a row are measured in the same run, in turn; a ratio is ours / theirs, the median of the pairs with the
lowest and the highest. Machines are noisy: trust ratios, not times. "The published way" is the wait script that polls
every 2 s and the plain tmux and GitPython calls of the published skill, written again in `tests/bench/published.py`.

"""
TABLE = (
    "| what | compared with | ours | theirs | ratio, or ours (low to high) | n | goal | reached | met |\n"
    "|---|---|---:|---:|---:|---:|---|---:|---|\n"
)


def section(module: ModuleType, results: Sequence[Result], took: float, load: float) -> str:
    """What a benchmark measures, as its first lines say it, when and where it was measured, and its rows."""
    said = [part for part in (inspect.getdoc(module) or "").split("\n\n") if not part.startswith(" ")]
    words = ["git", "log", "-1", "--format=%h", "--", "autoresearch"]  # the last one that changed what is measured
    commit = subprocess.run(words, cwd=DOCUMENT.parents[1], capture_output=True, text=True).stdout.strip()
    where = (
        f"{time.strftime('%Y-%m-%d')}, commit {commit}: {os.cpu_count()} cores, {platform.machine()}, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}; load {load:.1f} at the start, "
        f"{os.getloadavg()[0]:.1f} at the end; {took:.0f} s."
    )
    return "\n\n".join([*said, where, TABLE]) + "".join(result.row() for result in results) + "\n"


def write(names: Collection[str], measured: Mapping[str, str], path: Path = DOCUMENT) -> None:
    """Put new sections in the place of the old ones; what is no benchmark any more goes."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    sections = {found["name"]: found["body"].strip("\n") + "\n" for found in SECTION.finditer(before)} | dict(measured)
    kept = {name: sections[name] for name in names if name in sections}
    text = "".join(f"## {name}\n\n{body.strip()}\n\n" for name, body in kept.items())
    path.write_text(HEAD + _goals(kept) + text.rstrip() + "\n", encoding="utf-8")


def _goals(sections: Mapping[str, str]) -> str:
    rows = [
        (name, [cell.strip() for cell in line.strip("|").split(" | ")])
        for name, body in sections.items()
        for line in body.splitlines()
        if line.startswith("| ") and not line.startswith("| what |")
    ]
    goals = [(name, row) for name, row in rows if row[-1] in ("yes", "**no**")]
    missed = [f"- {row[0]} / {row[1]}: {row[4]}, goal {row[6]} ({name})\n" for name, row in goals if row[-1] != "yes"]
    return f"{len(goals) - len(missed)} of {len(goals)} goals are met. Missed:\n\n{''.join(missed)}\n"

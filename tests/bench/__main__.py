"""`make bench`: every claim about speed and memory, side by side in one run, as ratios.

python -m tests.bench [NAME ...] [--repeats N] [--write]
python -m tests.bench researcher [--ideas N ...] [--campaigns N] [--land NAME ...] [--equal runs] [--json]
python -m tests.bench judge [--all] [--ideas N] [--campaigns N] [--noise NAME] [--effect SD] [--json]
python -m tests.bench coverage [--campaigns N] [--json]
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from tests.bench.result import MORE, Result
from tests.bench.yard import isolated

HERE = Path(__file__).parent
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


def main() -> int:
    """Run the benchmarks; 1 where a value is worse than what was reached before, by more than a fifth."""
    if sys.argv[1:2] == ["judge"] and not {"--repeats", "--write"} & {*sys.argv}:  # it has a table of its own
        from tests.bench import bench_judge

        return bench_judge.main(sys.argv[2:])
    if sys.argv[1:2] == ["coverage"]:
        from tests.bench import coverage

        return coverage.main(sys.argv[2:])
    if sys.argv[1:2] == ["researcher"]:
        from tests.bench import researcher

        return researcher.main(sys.argv[2:])
    names = sorted(p.stem.removeprefix("bench_") for p in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *names], help=f"some of: {', '.join(names)}")
    parser.add_argument("--repeats", type=int, default=5, help="pairs of each comparison (default 5)")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md, or the sections of these names")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended and removed
    began, results = time.monotonic(), list[Result]()
    for name in given.names or names:
        print(f"-- {name}", file=sys.stderr, flush=True)
        module, own = importlib.import_module(f"tests.bench.bench_{name}"), list[Result]()
        start, load = time.monotonic(), os.getloadavg()[0]
        with isolated():
            for result in module.run(given.repeats):
                own.append(result)
                print(result.line(), flush=True)
        if own and given.write:  # at once: a later one may fail
            write(names, {name: section(module, own, time.monotonic() - start, load)})
        results += own
    goals = [result for result in results if result.goal is not None]
    back = [result for result in results if result.fell_back]
    print(
        f"{sum(result.met for result in goals)} of {len(goals)} goals met, {time.monotonic() - began:.0f} s", flush=True
    )
    for what, some in (
        ("missed", [result for result in goals if not result.met]),
        (f"worse than reached before by more than {MORE:.0%}", back),
    ):
        print("".join(f"{what}: {result.short()}\n" for result in some), end="", flush=True)
    return 1 if back else 0


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


if __name__ == "__main__":
    sys.exit(main())

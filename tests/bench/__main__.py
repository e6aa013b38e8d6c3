"""`make bench`: every claim about speed and memory, side by side in one run, as ratios.

python -m tests.bench [NAME ...] [--repeats N] [--write docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
import time
from pathlib import Path

from tests.bench.result import Result

HERE = Path(__file__).parent


def main() -> int:
    names = sorted(p.stem.removeprefix("bench_") for p in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of: {', '.join(names)}")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", type=Path, help="write the table as markdown")
    given = parser.parse_args()
    results: list[Result] = []
    for name in given.names or names:
        print(f"-- {name}", file=sys.stderr, flush=True)
        for result in importlib.import_module(f"tests.bench.bench_{name}").run(given.repeats):
            results.append(result)
            print(result.line(), flush=True)
    if given.write:
        given.write.write_text(_document(results), encoding="utf-8")
    return 0


def _document(results: list[Result]) -> str:
    head = (
        "# Benchmarks\n\n"
        "Made by `make bench`. Both sides are measured in the same run, in turn; the ratio is ours / theirs, as\n"
        "the median of the pairs with the lowest and highest. Machines are noisy: trust ratios, not times.\n\n"
        f"Machine: {platform.machine()}, {platform.system()} {platform.release()}, Python {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d')}.\n\n"
        "| what | compared with | ours | theirs | ratio (low to high) | goal | met |\n"
        "|---|---|---:|---:|---:|---|---|\n"
    )
    return head + "".join(r.row() for r in results)


if __name__ == "__main__":
    sys.exit(main())

"""`make bench`: every claim about speed and memory, side by side in one run, as ratios.

python -m tests.bench [NAME ...] [--repeats N] [--write docs/benchmarks.md]
python -m tests.bench researcher [--ideas N ...] [--campaigns N] [--land NAME ...] [--json]
python -m tests.bench judge [--all] [--ideas N] [--campaigns N] [--noise NAME] [--effect SD] [--json]
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import signal
import sys
import time
from pathlib import Path

from tests.bench.result import MORE, Result
from tests.bench.yard import isolated

HERE = Path(__file__).parent


def main() -> int:
    """Run the benchmarks; 1 where a value is worse than what was reached before, by more than a fifth."""
    if sys.argv[1:2] == ["judge"] and not {"--repeats", "--write"} & {*sys.argv}:  # it has a table of its own
        from tests.bench import bench_judge

        return bench_judge.main(sys.argv[2:])
    if sys.argv[1:2] == ["researcher"]:
        from tests.bench import researcher

        return researcher.main(sys.argv[2:])
    names = sorted(p.stem.removeprefix("bench_") for p in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *names], help=f"some of: {', '.join(names)}")
    parser.add_argument("--repeats", type=int, default=5, help="pairs of each comparison (default 5)")
    parser.add_argument("--write", type=Path, help="write the table as markdown")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended and removed
    began, load = time.monotonic(), os.getloadavg()[0]
    results: list[Result] = []
    for name in given.names or names:
        print(f"-- {name}", file=sys.stderr, flush=True)
        with isolated():
            for result in importlib.import_module(f"tests.bench.bench_{name}").run(given.repeats):
                results.append(result)
                print(result.line(), flush=True)
    took = time.monotonic() - began
    goals = [result for result in results if result.goal is not None]
    back = [result for result in results if result.fell_back]
    print(f"{sum(result.met for result in goals)} of {len(goals)} goals met, {took:.0f} s", flush=True)
    for what, some in (
        ("missed", [result for result in goals if not result.met]),
        (f"worse than reached before by more than {MORE:.0%}", back),
    ):
        print("".join(f"{what}: {result.short()}\n" for result in some), end="", flush=True)
    if given.write:
        given.write.write_text(_document(results, took, load), encoding="utf-8")
    return 1 if back else 0


def _document(results: list[Result], took: float, load: float) -> str:
    missed = [result for result in results if not result.met]
    return (
        "# Benchmarks\n\n"
        "Written by `make bench` (`python -m tests.bench --write docs/benchmarks.md`). Both sides are measured in\n"
        "the same run, in turn; a ratio is ours / theirs, the median of the pairs with the lowest and the highest.\n"
        'Machines are noisy: trust ratios, not times. "The published way" is the wait script that polls every\n'
        "2 s and the plain tmux and GitPython calls of the published skill, written again in\n"
        "`tests/bench/published.py`.\n\n"
        f"Machine: {os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, load {load:.1f} at the start; {took:.0f} s; "
        f"{time.strftime('%Y-%m-%d')}.\n\n"
        f"{len(results) - len(missed)} of {len(results)} goals are met"
        + (", and these are not: " + "; ".join(f"{r.what} / {r.compared}" for r in missed) if missed else "")
        + ".\n\n"
        "| what | compared with | ours | theirs | ratio, or ours (low to high) | n | goal | reached | met |\n"
        "|---|---|---:|---:|---:|---:|---|---:|---|\n"
    ) + "".join(r.row() for r in results)


if __name__ == "__main__":
    sys.exit(main())

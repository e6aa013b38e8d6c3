"""`python -m autoresearch.tinygrpo --conf recipe.yaml [--set key=value ...]`

Exit codes: 0 trained, 1 failed while training (with a traceback), 2 invalid recipe.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

# Before the first import of numpy: single-threaded sums are reproducible bit by bit.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import numpy as np  # noqa: E402

from autoresearch.tinygrpo.recipe import RecipeError, keys_as_markdown, read_recipe  # noqa: E402
from autoresearch.tinygrpo.training import open_report, train  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, train, and return the exit code."""
    prog, description = "python -m autoresearch.tinygrpo", "Train a tiny policy by GRPO on a verifiable task."
    parser = argparse.ArgumentParser(prog=prog, description=description)
    add = parser.add_argument
    add("--conf", type=Path, metavar="FILE", help="the recipe, a YAML file (default: all defaults)")
    add("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help="keys that win over the file's")
    add("--keys", action="store_true", help="print what a recipe may say, as a markdown table")
    options = parser.parse_args(arguments)
    if options.keys:
        print(keys_as_markdown())
        return 0
    try:
        recipe = read_recipe(options.conf, options.set)
        # The metrics show when a run diverges; numpy's warnings would only repeat it.
        with np.errstate(all="ignore"), open_report(recipe, sys.stdout) as report:
            train(recipe, report)
    except RecipeError as error:
        print(f"tinygrpo: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

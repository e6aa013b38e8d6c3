"""Entry point: `python -S -E -s RUNNER_DIRECTORY RUN_DIR`, from this directory or from a copy on another host."""

from __future__ import annotations

import os
import sys

if not __package__:  # started by path: import as the package named after the directory, without shadowing modules
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.pop(0)
    sys.path.append(os.path.dirname(here))
    __package__ = os.path.basename(here)
    __spec__ = type(sys.__spec__)(f"{__package__}.__main__", None)  # Python 3.15 asks only this for the package

from .runner import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -S -E -s RUNNER_DIRECTORY RUN_DIR`, here or wherever a copy of this directory lies."""

from __future__ import annotations

import os
import sys

if not __package__:  # started by path: be the package of the directory's name, and shadow no other module
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.pop(0)
    sys.path.append(os.path.dirname(here))
    __package__ = os.path.basename(here)

from .line_patterns import compile_early

# What compiling leaves behind is then the room for all that is imported after it: 0.15 MB a Runner.
compile_early(sys.argv[1:])

from .runner import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

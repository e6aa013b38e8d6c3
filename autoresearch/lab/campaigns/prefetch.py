"""Work that a controller does ahead of time, so that the next run starts soon after the last one ends."""

from __future__ import annotations

import functools
import gc


@functools.cache
def be_quick() -> None:
    """Import modules and compile templates once, while a run trains, to handle its end quickly."""
    import autoresearch.lab.results.collect  # noqa: F401 - the import is what it is for
    from autoresearch.lab.render import compile_ahead

    compile_ahead("results.md.j2")
    gc.collect()
    gc.freeze()  # keep thousands of ideas out of garbage collection

"""Distributions with plug-ins, written into a directory as pip would install them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from autoresearch import plugins


def distribution(
    directory: Path, name: str, points: Mapping[str, Mapping[str, str]], *, version: str = "1.0", **modules: str
) -> None:
    """A distribution with these entry points (group -> name -> module:attribute) and these modules' texts."""
    info = directory / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, entries in points.items():
        lines += [f"[autoresearch.{group}]", *(f"{key} = {value}" for key, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for module, text in modules.items():
        (directory / f"{module}.py").write_text(text)


@contextmanager
def on_path(directory: Path) -> Iterator[None]:
    """Its distributions are installed, in this process, for as long as the block runs."""
    before = set(sys.modules)
    sys.path.insert(0, str(directory))
    plugins.installed.cache_clear()
    try:
        yield
    finally:
        sys.path.remove(str(directory))
        plugins.installed.cache_clear()
        for name in set(sys.modules) - before:
            if str(directory) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]

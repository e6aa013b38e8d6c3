"""Directories outside of a Python environment that it imports from: editable installs, and lines of .pth files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit


def import_roots(interpreter: Path) -> Iterator[Path]:
    """Those of the environment whose `bin` an interpreter lies in; nothing is started.

    Source: PEP 610 (`direct_url.json`), and the documentation of Python's `site`.
    """
    for site in interpreter.parent.parent.glob("lib*/python*/site-packages"):
        yield from filter(None, map(_editable, site.glob("*.dist-info/direct_url.json")))
        for file in site.glob("*.pth"):
            lines = map(str.strip, _text(file).splitlines())
            yield from (Path(line) for line in lines if line.startswith("/"))


def _editable(record: Path) -> Path | None:
    try:
        said = json.loads(_text(record))
        url = urlsplit(said["url"])
        if said["dir_info"]["editable"] and url.scheme == "file":
            return Path(unquote(url.path))
    except (ValueError, KeyError, TypeError):
        pass
    return None


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""

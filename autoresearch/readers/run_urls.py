"""Find the URLs that trackers print into a log, at its beginning and again at its end."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

from autoresearch.core.text.regex import later
from autoresearch.records.hostile import open_readable

MOST = 8
_NAME = rb"[\w.@~%+-]{1,128}"
_HOST = rb"[\w.-]{1,200}(?::\d{1,5})?"
_HEX = rb"[0-9a-fA-F]{32}"
_SHAPES = (
    rb"(?:/[\w.-]{1,64}){0,2}/" + _NAME + rb"/" + _NAME + rb"/runs/[\w-]{3,64}",  # W&B, SwanLab
    rb"(?:/[\w.-]{1,64}){0,2}/?#/experiments/\d{1,20}/runs/" + _HEX,  # MLflow
    rb"/" + _NAME + rb"/" + _NAME + rb"/" + _HEX + rb"(?![\w/])",  # Comet
    rb"/projects/" + _HEX + rb"/experiments/" + _HEX,  # ClearML
    rb"(?<=huggingface\.co)/spaces/" + _NAME + rb"/" + _NAME,  # Trackio
)
_URL = later(
    rb"(?P<scheme>https?://)(?:[^\s/@'\"\x1b]{1,200}@)?(?P<rest>" + _HOST + rb"(?:" + rb"|".join(_SHAPES) + rb"))"
)
_TOLD = later(rb"(?:wandb|swanlab):|view run|COMET|clearml|trackio", re.IGNORECASE)
_SPACE = later(rb"trackio", re.IGNORECASE)
_ALONE = later(rb"(?:\([^()\n]{1,120}\)|\x1b\[[\d;]*m|\s)*\Z")  # rich puts a long URL on a separate line
_THEIRS = (b"wandb.ai/", b"swanlab.cn/", b"swanlab.com/")
_ENDS = 4 << 20  # bytes at each end; a tracker starts within minutes


def urls_in(log: Path, ends: int = _ENDS) -> tuple[str, ...]:
    """At most 8 URLs of the run, in printed order without duplicates; () if the log is missing."""
    try:
        with io.BufferedReader(open_readable(log)) as file:
            found = run_urls(file.read(ends))
            if (size := file.seek(0, os.SEEK_END)) > ends:
                file.seek(max(ends, size - ends))
                found += run_urls(file.read(ends))
    except OSError:
        return ()
    return tuple(dict.fromkeys(found))[:MOST]


def run_urls(text: bytes) -> tuple[str, ...]:
    """The URLs in a piece of a log, each once, in order, at most 8.

    A URL counts only after a tracker's own message, or at the beginning of a line with a known host, so that URLs of
    other runs in a model's output are not taken for this run's, unless they imitate a tracker.
    """
    found: dict[str, None] = {}
    for match in _URL.finditer(text):
        before = text[max(text.rfind(b"\n", 0, match.start()) + 1, match.start() - 300) : match.start()]
        space = b"huggingface.co/spaces/" in match["rest"]
        alone = match["rest"].startswith(_THEIRS) and _ALONE.match(before) is not None
        told = _SPACE.search(before) is not None if space else alone or _TOLD.search(before) is not None
        if told:
            found[(match["scheme"] + match["rest"]).decode("ascii", "replace")] = None
        if len(found) == MOST:
            break
    return tuple(found)

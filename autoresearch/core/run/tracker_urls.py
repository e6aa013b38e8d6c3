"""Run URLs: where a tracker shows a run, as it says so in the run's own output.

    wandb: 🚀 View run at https://wandb.ai/team/project/runs/1a2b3c4d              (wandb 0.31.0; other hosts too)
    swanlab: 🚀 View run at https://swanlab.cn/@user/project/runs/1a2b3c4d/chart   (swanlab 0.10.3, the same)
    🏃 View run warm-up at: http://mlflow:5000/#/experiments/7/runs/<32 hex digits>
    COMET INFO: Experiment is live on comet.com https://www.comet.com/team/project/<32 hex digits>
    ClearML results page: https://app.clear.ml/projects/<32 hex digits>/experiments/<32 hex digits>/output/log
    * View dashboard ... Trackio ... https://huggingface.co/spaces/user/space

Credentials and what follows a question mark (W&B puts an API key of anonymous runs there) are no part of them.
"""

from __future__ import annotations

import re

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
_URL = re.compile(
    rb"(?P<scheme>https?://)(?:[^\s/@'\"\x1b]{1,200}@)?(?P<rest>" + _HOST + rb"(?:" + rb"|".join(_SHAPES) + rb"))"
)
_TOLD = re.compile(rb"(?:wandb|swanlab):|view run|COMET|clearml|trackio", re.IGNORECASE)
_SPACE = re.compile(rb"trackio", re.IGNORECASE)
_ALONE = re.compile(rb"(?:\([^()\n]{1,120}\)|\x1b\[[\d;]*m|\s)*\Z")  # rich puts a long URL on a line of its own
_THEIRS = (b"wandb.ai/", b"swanlab.cn/", b"swanlab.com/")


def run_urls(text: bytes) -> tuple[str, ...]:
    """The URLs in a piece of a log, each once, in their order, at most 8.

    Only what stands behind a tracker's own words counts, or a known host at the beginning of a line: what a model
    writes about somebody's run says nothing of this one, unless it takes care to look like it.
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

"""The page of a report: one file with its data, its style, its script and plotly, that fetches nothing."""

from __future__ import annotations

import base64
import functools
import gzip
import json
import secrets
from collections.abc import Mapping
from importlib import resources
from typing import Any


def page_html(data: Mapping[str, Any], live: bool = False) -> str:
    """The page that shows `page_data`; `live`: it asks its server for `data.json` every few seconds.

    The data are JSON in a script element and become text nodes, so nothing in them is ever read as markup.
    """
    from autoresearch.lab.render import render

    text = json.dumps({**data, "live": live}, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    first = {"name": data["name"], "subtitle": data.get("subtitle", ""), "outcome": data.get("outcome", [])}
    script = {"json": text, "plotly": _plotly(), "live": live, "nonce": secrets.token_urlsafe(12)}
    return render("report.html.j2", **first, **script)


@functools.cache
def _plotly() -> str:
    """plotly.js as base64 of its gzip: 2 MB in place of 4.8 MB."""
    script = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(script, 9, mtime=0)).decode()

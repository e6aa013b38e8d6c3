"""The chat template of a model's directory, and what it does to the thinking of earlier turns."""

from __future__ import annotations

import json
from pathlib import Path

from autoresearch.errors import UsageError
from autoresearch.lab.render import render_chat

_THOUGHT = "a first thought"
_TURNS = (
    {"role": "user", "content": "a question"},
    {"role": "assistant", "content": f"<think>\n{_THOUGHT}\n</think>\n\nan answer"},
    {"role": "user", "content": "another question"},
    {"role": "assistant", "content": "<think>\na second thought\n</think>\n\nanother answer"},
    {"role": "user", "content": "a last question"},
)
_LARGEST = 1 << 24


def drops_thinking(model: Path) -> bool:
    """Whether its template removes the thinking of earlier turns; False where it has none, or it cannot be tried."""
    template = template_of(model)
    if "think" not in template:  # most have nothing to do with it, and are not rendered
        return False
    try:
        return _THOUGHT not in render_chat(template, _TURNS)
    except UsageError:
        return False


def template_of(model: Path) -> str:
    """The default chat template in a model's directory, as transformers finds it; "" without one."""
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        try:
            with (model / name).open(encoding="utf-8") as file:
                text = file.read(_LARGEST)
            found = text if name.endswith(".jinja") else json.loads(text).get("chat_template")
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(found, list):  # named templates
            named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
            found = named.get("default")
        if isinstance(found, str):
            return found
    return ""

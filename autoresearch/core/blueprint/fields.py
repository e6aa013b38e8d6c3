"""New blueprints: from flags, or like another one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autoresearch.core.blueprint.finding import errors
from autoresearch.core.blueprint.model import BY_NAME, RESULT_ROOT, Blueprint
from autoresearch.core.blueprint.notes import NoteValue, notes_of
from autoresearch.core.keys import ValueType, seconds
from autoresearch.core.text.session_and_branch_names import slugify
from autoresearch.errors import UsageError

_TEXTS = ("title", "purpose", "launch_command", "codebase_dir", "venv_exe", "yaml_path", "result_dir")
_LIMITS = ("max_time_s", "first_step_s")
FIELDS = {**dict.fromkeys((*_TEXTS, *BY_NAME), ValueType.TEXT), **dict.fromkeys(_LIMITS, ValueType.ANY)}
"""Every name that `blueprint_from` accepts; what is a list in a blueprint has one item."""


def default_result_dir(blueprint: Blueprint) -> str:
    """Its `result_dir`, or the default one for its slug or title."""
    return blueprint.result_dir or f"{RESULT_ROOT}{slugify(blueprint.notes.slug or blueprint.title)}/"


def blueprint_like(blueprint: Blueprint, **changes: Any) -> Blueprint:
    """It with `changes` to its own values and to its notes; its prose for readers is not carried over.

    If `result_dir` changes, paths below the old one in `env` and `source` are moved too, so that two runs never write
    the same file because the blueprint names it by its absolute path.
    """
    notes, old, new = blueprint.notes, blueprint.result_dir, str(changes.get("result_dir", blueprint.result_dir))
    own = {name: changes.pop(name) for name in _TEXTS if name in changes}
    env = {name: moved(value, old, new) for name, value in notes.env.items()}
    sources = tuple(replace(source, path=moved(source.path, old, new)) for source in notes.source)
    return replace(blueprint, **own, notes=replace(notes, **{"text": "", "env": env, "source": sources} | changes))


def moved(text: str, old: str, new: str) -> str:
    """The text with the absolute directory `old` replaced by `new`, also as a prefix of longer paths."""
    if not old.startswith("/") or not old.strip("/"):
        return text
    whole = rf"(?<![\w./-]){re.escape(old.rstrip('/'))}(?=/|[^\w.-]|$)"
    return re.sub(whole, lambda _: new.rstrip("/"), text)


def blueprint_from(mapping: Mapping[str, object]) -> Blueprint:
    """A blueprint from flags, by the names of FIELDS; durations in words are accepted.

    Raises UsageError for a value that a field cannot have, and for a missing required one.
    """
    own, given = dict[str, Any](), dict[str, list[NoteValue]]()
    for name, value in mapping.items():
        if value is None:
            continue
        if name in BY_NAME:
            given[name] = [NoteValue(0, str(value))]
        else:
            own[name] = limit(name, value) if name in _LIMITS else str(value)
    for name, option in (("purpose", "--purpose 'why it is run'"), ("launch_command", "--command 'python train.py'")):
        if not own.get(name, "").strip():
            raise UsageError(f"a blueprint needs a {name.replace('_', ' ')}", hint=option)
    notes, findings = notes_of(given)
    if wrong := errors(findings):
        raise UsageError(wrong[0].message, hint=wrong[0].hint)
    return Blueprint(**own, first_step_given="first_step_s" in own, notes=notes)


def limit(name: str, value: object) -> float:
    """The duration of the limit `name` in seconds. UsageError if it is invalid or not possible as a limit."""
    try:
        return seconds(value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}", hint="durations look like 20m, 24 hours or 1h30m") from None

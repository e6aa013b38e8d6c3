"""BlueprintFields: the values from which a blueprint is rendered, from flags or another blueprint."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from autoresearch.core.blueprint.finding import errors
from autoresearch.core.blueprint.model import BY_NAME, LIST_KEYS, RESULT_ROOT, Blueprint, Notes
from autoresearch.core.blueprint.notes import NoteValue, notes_of
from autoresearch.core.keys import seconds
from autoresearch.core.run.limits import MAX_TIME_S
from autoresearch.core.text.session_and_branch_names import slugify
from autoresearch.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class BlueprintFields(Notes):
    """The values of a new blueprint and its notes. Only title, purpose and launch_command have no default."""

    title: str
    purpose: str
    launch_command: str
    codebase_dir: str = "./"
    venv_exe: str = ""  # "" = look for one
    yaml_path: str = ""  # "" = there is no recipe
    result_dir: str = ""  # "" = ./auto_agent/exp_results/<slug>/
    max_time_s: float = MAX_TIME_S
    first_step_s: float | None = None  # None: the default of the project

    def default_result_dir(self) -> str:
        """`result_dir`, or the default one for this slug or title."""
        return self.result_dir or f"{RESULT_ROOT}{slugify(self.slug or self.title)}/"


_OF_NOTES = frozenset(f.name for f in fields(Notes))
_OWN = {f.name: str(f.type) for f in fields(BlueprintFields) if f.name not in _OF_NOTES}
FIELD_NAMES = (*_OWN, *BY_NAME)
"""Every name that `fields_from` accepts."""


def fields_like(blueprint: Blueprint, **changes: Any) -> BlueprintFields:
    """The fields of this blueprint with `changes` applied; its prose for readers is not carried over.

    If `result_dir` changes, paths below the old one in `env` and `source` are moved too, so that two runs never write
    the same file because the blueprint names it by its absolute path.
    """
    notes, old, new = blueprint.notes, blueprint.result_dir, str(changes.get("result_dir", blueprint.result_dir))
    same = {name: getattr(notes, name) for name in _OF_NOTES}
    same |= {name: getattr(blueprint, name) for name in _OWN}
    same["text"], same["first_step_s"] = "", blueprint.first_step_s if blueprint.first_step_given else None
    same["env"] = {name: moved(value, old, new) for name, value in notes.env.items()}
    same["source"] = tuple(replace(source, path=moved(source.path, old, new)) for source in notes.source)
    return BlueprintFields(**(same | changes))


def moved(text: str, old: str, new: str) -> str:
    """The text with the absolute directory `old` replaced by `new`, also as a prefix of longer paths."""
    if not old.startswith("/") or not old.strip("/"):
        return text
    whole = rf"(?<![\w./-]){re.escape(old.rstrip('/'))}(?=/|[^\w.-]|$)"
    return re.sub(whole, lambda _: new.rstrip("/"), text)


def fields_from(mapping: Mapping[str, object]) -> BlueprintFields:
    """Fields from flags; durations in words are accepted.

    Raises UsageError for an unknown name, a value of the wrong type, or a missing required field.
    """
    values, given = dict[str, Any](), dict[str, list[NoteValue]]()
    for name, value in mapping.items():
        if name not in FIELD_NAMES:
            raise UsageError(f"{name!r} is not a field of a blueprint", hint=f"known: {', '.join(FIELD_NAMES)}")
        if value is None:
            continue
        if name in BY_NAME:
            given[name] = [NoteValue(0, text) for text in _texts(name, value)]
        else:
            values[name] = limit(name, value) if _OWN[name].startswith("float") else _text(name, value)
    for name, option in (("purpose", "--purpose 'why it is run'"), ("launch_command", "--command 'python train.py'")):
        if not values.get(name, "").strip():
            raise UsageError(f"a blueprint needs a {name.replace('_', ' ')}", hint=option)
    notes, findings = notes_of(given)
    if wrong := errors(findings):
        raise UsageError(wrong[0].message, hint=wrong[0].hint)
    return BlueprintFields(**{name: getattr(notes, name) for name in _OF_NOTES}, **values)


def _texts(name: str, value: object) -> list[str]:
    """The texts of a note, as it would be written in a blueprint."""
    if isinstance(value, Mapping) and name == "env":
        return [f"{key}={json.dumps(str(one), ensure_ascii=False)}" for key, one in value.items()]
    if isinstance(value, list | tuple) and name in LIST_KEYS:
        return [str(one) for one in value]
    return [str(value).lower() if isinstance(value, bool) else _text(name, value)]


def _text(name: str, value: object) -> str:
    if isinstance(value, list | tuple | Mapping):
        raise UsageError(f"{name} must be a text")
    return str(value)


def limit(name: str, value: object) -> float:
    """The duration of the limit `name` in seconds. UsageError if it is invalid or not possible as a limit."""
    try:
        return seconds(value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}", hint="durations look like 20m, 24 hours or 1h30m") from None

"""BlueprintFields: the values from which a blueprint is rendered, from flags, a YAML file or another blueprint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from autoresearch.core.blueprint.model import RESULT_ROOT, Blueprint
from autoresearch.core.blueprint.swarm_notes import COMMANDS, TEXTS, BadNote, read_swarm
from autoresearch.core.run.limits import EVALUATE_S, MAX_TIME_S
from autoresearch.core.run.swarm import Swarm
from autoresearch.core.run.trainer import SourceFormat
from autoresearch.core.text.branch_and_run_names import slugify
from autoresearch.core.text.durations import parse_duration, problem
from autoresearch.errors import UsageError


@dataclass(frozen=True, slots=True)
class BlueprintFields:
    """The values of a new blueprint. Only title, purpose and launch_command have no default.

    `source` has entries such as `jsonl runs/metrics.jsonl`. `remarks` is prose for readers.
    """

    title: str
    purpose: str
    launch_command: str
    codebase_dir: str = "./"
    venv_exe: str = ""  # "" = look for one
    yaml_path: str = ""  # "" = there is no recipe
    result_dir: str = ""  # "" = ./auto_agent/exp_results/<slug>/
    max_time_s: float = MAX_TIME_S
    first_step_s: float | None = None  # None: the default of the project
    slug: str = ""
    trainer: str = ""
    launcher: str = ""
    metric: str = ""
    direction: str = ""
    first_step: str = ""
    seed: str = ""
    keep_children: bool = False
    resume: bool = False
    record_metrics: bool = True
    prepare: tuple[str, ...] = ()
    evaluate: tuple[str, ...] = ()
    evaluate_s: float = EVALUATE_S
    cleanup: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    requires_env: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    step_line: tuple[str, ...] = ()
    validation_line: tuple[str, ...] = ()
    swarm: Swarm | None = None
    remarks: str = ""

    def default_result_dir(self) -> str:
        """`result_dir`, or the default one for this slug or title."""
        return self.result_dir or f"{RESULT_ROOT}{slugify(self.slug or self.title)}/"


def fields_like(blueprint: Blueprint, **changes: Any) -> BlueprintFields:
    """The fields of this blueprint with `changes` applied; its prose for readers is not carried over.

    If `result_dir` changes, paths below the old one in `env` and `source` are moved too, so that two runs never write
    the same file because the blueprint names it by its absolute path.
    """
    notes = blueprint.notes
    owners = {f.name: blueprint if hasattr(blueprint, f.name) else notes for f in fields(BlueprintFields)}
    same: dict[str, Any] = {name: getattr(one, name) for name, one in owners.items() if name != "remarks"}
    same["first_step_s"] = blueprint.first_step_s if blueprint.first_step_given else None
    same["source"] = tuple(
        f"{one.format} {one.path}".strip() if isinstance(one.format, SourceFormat) else f"{one.format}: {one.path}"
        for one in notes.source
    )
    new = str(changes.get("result_dir", blueprint.result_dir))
    same["env"] = {name: moved(value, blueprint.result_dir, new) for name, value in notes.env.items()}
    same["source"] = tuple(moved(source, blueprint.result_dir, new) for source in same["source"])
    return BlueprintFields(**(same | changes))


def moved(text: str, old: str, new: str) -> str:
    """The text with the absolute directory `old` replaced by `new`, also as a prefix of longer paths."""
    if not old.startswith("/") or not old.strip("/"):
        return text
    whole = rf"(?<![\w./-]){re.escape(old.rstrip('/'))}(?=/|[^\w.-]|$)"
    return re.sub(whole, lambda _: new.rstrip("/"), text)


def fields_from(mapping: Mapping[str, object]) -> BlueprintFields:
    """Fields from a parsed YAML file or from flags; `exp_` names and durations in words are accepted.

    Raises UsageError for an unknown name, a value of the wrong type, or a missing required field.
    """
    known = {f.name: f for f in fields(BlueprintFields) if f.name != "swarm"}
    values: dict[str, object] = {"swarm": _swarm(mapping)}
    for key, value in mapping.items():
        if key in (*COMMANDS, *TEXTS):
            continue
        name = _NAMES.get(key, key)
        if name not in known:
            raise UsageError(f"{key!r} is not a field of a blueprint", hint=f"known: {', '.join(known)}")
        if value is not None:
            values[name] = _converted(name, value)
    for name in ("title", "purpose", "launch_command"):
        if not str(values.get(name, "")).strip():
            option = {"purpose": "--purpose 'why it is run'", "launch_command": "--command 'python train.py'"}.get(name)
            raise UsageError(
                f"a blueprint needs a {name.replace('_', ' ')}", hint=option or f"`{name}: TEXT` in the file of values"
            )
    return BlueprintFields(**values)  # type: ignore[arg-type]


def _swarm(mapping: Mapping[str, object]) -> Swarm | None:
    texts = {key: str(value) for key, value in mapping.items() if key in (*COMMANDS, *TEXTS) and value is not None}
    try:
        return read_swarm(texts, {key: [texts[key]] for key in COMMANDS if key in texts})
    except BadNote as bad:
        raise UsageError(f"{bad.args[0]}: {bad.args[1]}", hint=bad.args[2]) from None


_NAMES = {
    "exp_purpose": "purpose", "exp_codebase_dir": "codebase_dir", "exp_venv_exe": "venv_exe",
    "exp_yaml_path": "yaml_path", "exp_launch_command": "launch_command", "exp_result_dir": "result_dir",
    "exp_max_time": "max_time_s", "max_time": "max_time_s", "first_step_timeout": "first_step_s",
    "command": "launch_command", "recipe": "yaml_path", "codebase": "codebase_dir", "notes": "remarks",
    "evaluate_time": "evaluate_s",
}  # fmt: skip


FIELD_NAMES = (*(f.name for f in fields(BlueprintFields) if f.name != "swarm"), *_NAMES, *COMMANDS, *TEXTS)
"""Every name that `fields_from` accepts."""


def limit(name: str, text: str) -> float:
    """Parse the duration of the limit `name` into seconds. UsageError if it is invalid or not possible as a limit."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}", hint="durations look like 20m, 24 hours or 1h30m") from None
    if trouble := problem(seconds):
        raise UsageError(f"{name}: {text!r} {trouble}")
    return seconds


def _converted(name: str, value: object) -> object:
    """The value converted to the type of its field; UsageError if it cannot be."""
    match BlueprintFields.__annotations__[name].partition(" ")[0]:
        case "float":
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                if trouble := problem(float(value)):
                    raise UsageError(f"{name} {value} {trouble}")
                return float(value)
            return limit(name, str(value))
        case "tuple[str,":
            return tuple(str(v) for v in value) if isinstance(value, (list, tuple)) else (str(value),)
        case "Mapping[str,":
            if not isinstance(value, Mapping):
                raise UsageError(f"{name} must be a mapping of names to values")
            return {str(k): str(v) for k, v in value.items()}
        case "bool":
            if not isinstance(value, bool):
                raise UsageError(f"{name} must be true or false")
            return value
    if isinstance(value, (list, tuple, Mapping)):
        raise UsageError(f"{name} must be a text")
    return str(value)

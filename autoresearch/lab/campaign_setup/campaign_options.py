"""What a campaign is to be: flags over the campaign file over the blueprint over the trainer over defaults."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoresearch.core.metrics.python_values import truth
from autoresearch.core.text.durations import parse_duration, problem
from autoresearch.errors import NotFoundError, UsageError
from autoresearch.lab.campaign_setup import agent_options
from autoresearch.lab.campaign_setup.agent_options import RESEARCH
from autoresearch.lab.yaml_files import load_mapping

FILES = ("campaign.yaml", "campaign.yml")
PROPOSERS = ("queue", "grid", "random", "tpe", "agent", "hybrid")
DEFAULTS: dict[str, Any] = {
    "count": None,
    "deadline": None,
    "timeout": None,
    "budget_gpu_hours": None,
    "target": None,
    "metric": "",
    "direction": "",
    "prefix": "",
    "base": "",
    "proposer": "",
    "space": None,
    "queue": "",
    "seed": 0,
    "baseline": 4,
    "retests": 5,
    "confirm": True,
    "confirm_runs": 12,
    "parallel": 1,
    "launcher": None,
    "gpus": "none",
    "gpus_per_run": None,
    "runs_per_gpu": 1,
    "gpu_busy_mib": 0,
    "include": [],
    "min_steps": 0,
    "prune": "",
    "warmup": None,
    "trees": "",
    "gpu_check": True,
    **RESEARCH,
}
_WHOLE = {"count": 1, "seed": 0, "baseline": 1, "retests": 0, "confirm_runs": 2, "parallel": 1, "gpus_per_run": 0,
          "runs_per_gpu": 1, "gpu_busy_mib": 0, "min_steps": 0, "warmup": 0,
          **agent_options.WHOLE}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CampaignFile:
    """A campaign file with the flags laid over it: every key, its value and its source; paths are absolute."""

    blueprint: Path
    path: Path | None  # None if only a blueprint was named
    values: Mapping[str, Any]
    sources: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def given(self, name: str) -> bool:
        """Whether somebody said it."""
        return name in self.sources


def declare(name: str, flags: Mapping[str, Any], *, start: Path, now: float) -> CampaignFile:
    """Read the campaign file (or take the blueprint) that `name` is, and lay the flags over it.

    `name` "" is looked for in `start`. Raises UsageError, NotFoundError or BlueprintError with one sentence.
    """
    path = (start / name) if name else _find(start)
    if not path.exists():
        raise NotFoundError(
            f"there is no campaign file or blueprint {path}", hint="autoresearch blueprint new makes a blueprint"
        )
    file = path if path.suffix in (".yaml", ".yml") else None
    typed = _read(file) if file else {}
    blueprint = _blueprint(file, typed) if file else path
    values, sources = dict(DEFAULTS), {}
    for key, value in typed.items():
        if value is not None:
            values[key], sources[key] = value, str(file)
    for key, value in flags.items():
        if value not in (None, "", (), []):
            values[key], sources[key] = value, f"flag --{key.replace('_', '-')}"
    for key in values:
        values[key] = _checked(key, values[key], sources.get(key, ""), now)
    base = file.parent if file and not sources.get("queue", "").startswith("flag") else start
    if isinstance(values["queue"], list):
        if file is None or sources["queue"] != str(file):
            raise UsageError("a list of ideas stands in a file: name it in `queue`", code="bad_campaign_file")
        values["queue"] = os.path.abspath(file)  # noqa: PTH100 - the campaign file is the queue: it is read again
    elif values["queue"]:
        values["queue"] = os.path.normpath(base / values["queue"])
    if values["prune"] and values["warmup"] is None:
        raise UsageError(
            "early stopping needs a warm-up: the steps in which no run is ended for its curve",
            hint="`warmup: 20` in the campaign file, or --warmup 20; `autoresearch campaign replay-pruning` tries some",
            code="no_warmup",
        )
    if isinstance(values["space"], str):
        root = start if sources["space"].startswith("flag") else (file or path).parent
        values["space"] = load_mapping(root / values["space"])
    return CampaignFile(Path(os.path.abspath(blueprint)), file, values, sources)  # noqa: PTH100


def _find(start: Path) -> Path:
    """The project's campaign file, or its only blueprint."""
    for folder in (start, start / "blueprints"):
        for name in FILES:
            if (folder / name).is_file():
                return folder / name
    plans = [*start.glob("*-campaign.yaml"), *(start / "blueprints").glob("*-campaign.yaml")]
    if len(plans) == 1:
        return plans[0]
    blueprints = [p for folder in (start, start / "blueprints") for p in folder.glob("*.md") if _is_blueprint(p)]
    if len(blueprints) == 1 and not plans:
        return blueprints[0]
    found = [str(p.relative_to(start)) for p in (*plans, *blueprints)]
    what = f"several would do: {', '.join(found[:5])}" if found else "here is neither a campaign file nor a blueprint"
    raise UsageError(
        f"which campaign? {what}",
        hint="name a blueprint or a campaign.yaml",
        fix=f"autoresearch campaign {found[0]}" if found else "autoresearch blueprint new my-experiment.md",
        code="no_campaign_file",
    )


def _is_blueprint(path: Path) -> bool:
    with path.open("rb") as file:
        return b"[exp_launch_command]" in file.read(1 << 16)


def _read(file: Path) -> dict[str, Any]:
    data: dict[str, Any] = dict(load_mapping(file))
    known = {*DEFAULTS, "blueprint"}
    if unknown := sorted(set(data) - known):
        import difflib

        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
        raise UsageError(f"{file}: unknown key {unknown[0]!r}", hint=hint, code="bad_campaign_file")
    return data


def _blueprint(file: Path, typed: Mapping[str, Any]) -> Path:
    named = typed.get("blueprint")
    if not isinstance(named, str) or not named.strip():
        raise UsageError(
            f"{file} names no blueprint", hint="add the line `blueprint: my-experiment.md`", code="bad_campaign_file"
        )
    path = file.parent / named.strip()
    if not path.is_file():
        raise NotFoundError(f"{file}: the blueprint {path} is not there", code="no_blueprint")
    return path


def _checked(key: str, value: Any, source: str, now: float) -> Any:
    """The value in the type of its key; UsageError names key and source."""
    try:
        return _converted(key, value, now)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{source or 'default'}: {key}: {error}", code="bad_campaign_file") from None


def _converted(key: str, value: Any, now: float) -> Any:
    if value is None:
        return None
    if key in _WHOLE:
        number = int(value) if not isinstance(value, bool) and float(value) == int(value) else None
        if number is None or number < _WHOLE[key]:
            raise ValueError(f"{value!r} is not a whole number of at least {_WHOLE[key]}")
        return number
    if key in agent_options.KEYS:
        return agent_options.converted(key, value, _seconds)
    if key == "budget_gpu_hours":
        if not float(value) > 0:
            raise ValueError(f"{value!r} is not a number above 0")
        return float(value)
    if key == "timeout":
        return _seconds(value)
    if key == "deadline":
        return as_deadline(value, now)
    if key in ("confirm", "gpu_check"):
        if (said := truth(value)) is None:
            raise ValueError(f"{value!r} is neither true nor false")
        return said
    if key == "include":
        return [value] if isinstance(value, str) else [str(item) for item in value]
    if key == "queue" and not isinstance(value, str | list):
        raise ValueError(f"{value!r} is neither a path nor a list of ideas")
    if key == "direction":
        return _direction(str(value))
    if key == "proposer" and value not in ("", *PROPOSERS):
        raise ValueError(f"{value!r} is not one of {', '.join(PROPOSERS)}")
    if key == "prune" and truth(value) is False:  # `off`, which YAML takes for false
        return ""
    if key == "prune" and value not in ("", "median", "halving"):
        raise ValueError(f"{value!r} is neither median nor halving")
    return str(value) if key in ("target", "gpus", "metric", "prefix", "base", "trees") else value


def _seconds(value: Any) -> float:
    seconds = float(value) if isinstance(value, int | float) else parse_duration(str(value))
    if wrong := problem(seconds):
        raise ValueError(f"{value!r} {wrong}")
    return seconds


def as_deadline(value: Any, now: float) -> float:
    """Wall clock seconds: from a duration that begins now, or from a date and time."""
    if isinstance(value, datetime.datetime):
        at = value.timestamp()
    else:
        try:
            at = datetime.datetime.fromisoformat(str(value)).timestamp()
        except ValueError:
            return now + _seconds(value)
    if at <= now:
        raise ValueError(f"{value} has passed")
    return at


def _direction(text: str) -> str:
    words = {"max": "maximize", "min": "minimize", "higher": "maximize", "lower": "minimize", "up": "maximize",
             "down": "minimize"}  # fmt: skip
    word = words.get(text.lower(), text.lower())
    if word not in ("", "maximize", "minimize"):
        raise ValueError(f"{text!r} is neither maximize nor minimize")
    return word

"""The strict JSON schema of a plan requested from the agent, and conversion of its answer into `plan.yaml` form.

Only the shape is converted here (strict schemas have no free-form maps and require every key). The content is
validated by `core.plans.model`, like a plan written by a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoresearch.core.agents.proposal_schema import SLUG, closed
from autoresearch.core.agents.proposal_text import value_of
from autoresearch.core.agents.protected_keys import why_protected
from autoresearch.core.plans.condition import OF_IDEA, WORDS
from autoresearch.core.plans.model import END, OTHERWISE, REVISE, STAGE_MAX

PROPOSERS = ("ideas", "tpe", "random", "grid")
SETTINGS = (
    "count", "deadline", "target", "budget_gpu_hours", "timeout", "baseline", "retests", "confirm", "confirm_runs",
    "parallel", "gpus", "gpus_per_run", "min_steps", "seed", "metric", "direction",
)  # fmt: skip


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _list(items: Mapping[str, Any], description: str) -> dict[str, Any]:
    return {"type": "array", "items": dict(items), "description": description}


_WHEN = f"a condition over {', '.join(WORDS)}, or of one idea {', '.join(f'{w}(slug)' for w in OF_IDEA)}"
_PAIR = closed({"key": _text("dotted, as the recipe has it"), "value": _text("as JSON: 0.001, true, [1, 2]")})
_SETTING = closed({"key": {"type": "string", "enum": list(SETTINGS)}, "value": _text("as JSON, or a word such as 1h")})
_SPAN = 'as JSON: {"low": 1e-6, "high": 1e-4, "log": true} or [4, 8]'
_RANGE = closed({"key": _text("a recipe key"), "value": _text(_SPAN)})
_EXPECTED = closed({"sentence": _text("what is expected"), "when": _text(f"{_WHEN}; it must be able to fail")})
_IDEA = closed(
    {
        "slug": _text(SLUG),
        "sentence": _text("what is changed, and why it may win"),
        "expected": _text("the effect that is expected, with a size"),
        "overrides": _list(_PAIR, "the recipe keys that it sets; at least one"),
    }
)
_OUTCOME = closed(
    {
        "when": _text(f"{_WHEN}; the last outcome of a stage is `{OTHERWISE}`"),
        "conclusion": _text("what it will mean; written now, before anything has run"),
        "next": _text(f"the name of a stage, `{REVISE}` or `{END}`"),
    }
)
_STAGE = closed(
    {
        "name": _text(f"lower-case letters, digits, hyphens; at most {STAGE_MAX}"),
        "question": _text("what this stage asks"),
        "blueprint": _text("path of its baseline's blueprint in the repository"),
        "proposer": {"type": "string", "enum": list(PROPOSERS), "description": "ideas: those listed; else a search"},
        "ideas": _list(_IDEA, "the blueprints of this stage as changes of the baseline; empty for a search"),
        "space": _list(_RANGE, "of a search; empty for ideas"),
        "settings": _list(_SETTING, "of the campaign; a search needs a count, the baseline is one"),
        "expectation": _EXPECTED,
        "outcomes": _list(_OUTCOME, "the first whose condition holds is the outcome"),
        "most_runs": {"type": "integer", "description": "how often the plan may come to this stage; usually 1"},
    }
)
SCHEMA: Mapping[str, Any] = closed(
    {
        "title": _text("one line"),
        "question": _text("what is to be known at the end"),
        "stages": _list(_STAGE, "in the order in which they may run; the first one begins"),
    }
)


def plan_of(data: object) -> tuple[dict[str, Any], list[str]]:
    """The answer in the form of `plan.yaml`, and one sentence for each part that could not be converted."""
    if not isinstance(data, Mapping):
        return {}, ["the answer is no object with the keys title, question, stages"]
    converter = _PlanConverter()
    plan = {key: value for key, value in data.items() if key != "stages"}
    stages = data.get("stages")
    if not isinstance(stages, list):
        return {}, ["stages: is no list"]
    return {**plan, "stages": [converter.stage(stage, n) for n, stage in enumerate(stages)]}, converter.problems


def _keys(idea: object) -> list[str]:
    pairs = idea.get("overrides") if isinstance(idea, Mapping) else None
    keys = (pair.get("key") for pair in pairs if isinstance(pair, Mapping)) if isinstance(pairs, list) else ()
    return [key for key in keys if isinstance(key, str)]


class _PlanConverter:
    """Converts lists of {key, value} into maps, and omits empty values; collects `problems`."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def stage(self, value: object, n: int) -> object:
        if not isinstance(value, Mapping):
            self.problems.append(f"stages[{n}]: is no object")
            return value
        where, by = f"stages[{n}]", value.get("proposer")
        campaign = {"blueprint": value.get("blueprint"), **self.map(value.get("settings"), f"{where}.settings")}
        for key in campaign:
            if key not in ("blueprint", *SETTINGS):
                self.problems.append(f"{where}.settings: `{key}` is none of {', '.join(SETTINGS)}")
        space = self.map(value.get("space"), f"{where}.space")
        ideas = value.get("ideas") or []
        if not isinstance(ideas, list):
            self.problems.append(f"{where}.ideas: is no list")
            ideas = []
        if by == "ideas" and not ideas:
            self.problems.append(f"{where}.ideas: is empty, and the proposer is `ideas`")
        for key in (*space, *(key for one in ideas for key in _keys(one))):
            if why := why_protected(key.removeprefix("+")):
                self.problems.append(f"{where}: {key} is {why}: it decides how ideas are judged, and is no idea itself")
        if by != "ideas":
            campaign |= {"proposer": by, "space": space}
            if not space or ideas:
                what = "ideas: are given" if ideas else "space: is empty"
                self.problems.append(f"{where}.{what}, and the proposer is `{by}`")
        known = ("name", "question", "expectation", "outcomes", "most_runs")
        stage: dict[str, Any] = {key: value[key] for key in known[:2] if key in value} | {"campaign": campaign}
        if ideas:
            stage["ideas"] = [self.idea(idea, f"{where}.ideas[{m}]") for m, idea in enumerate(ideas)]
        stage |= {key: value[key] for key in known[2:] if key in value}
        for key in value:
            if key not in _STAGE["properties"]:
                self.problems.append(f"{where}: there is no key `{key}`")
        return stage

    def idea(self, value: object, where: str) -> object:
        if not isinstance(value, Mapping):
            self.problems.append(f"{where}: is no object")
            return value
        kept = {key: item for key, item in value.items() if key != "overrides" and item != ""}
        return {**kept, "overrides": self.map(value.get("overrides"), f"{where}.overrides")}

    def map(self, pairs: object, where: str) -> dict[str, Any]:
        if not isinstance(pairs, list):
            self.problems.append(f"{where}: is no list of {{key, value}}")
            return {}
        mapping: dict[str, Any] = {}
        for n, pair in enumerate(pairs):
            if not isinstance(pair, Mapping) or set(pair) != {"key", "value"} or not isinstance(pair["key"], str):
                self.problems.append(f"{where}[{n}]: is no {{key, value}}")
                continue
            try:
                mapping[pair["key"]] = value_of(pair["value"])
            except ValueError as error:
                self.problems.append(f"{where}[{n}].value: {error}")
        return mapping
